-- What rehearsals have read goes after its time too, counted from when it was read: they read mail of many months.
alter table past_mails add column read_at timestamptz not null default now();
create index past_mails_read_at on past_mails (account_id, read_at);
