-- What an account sends from besides its own address, {address, name, signature, default}; null: not asked for yet.
alter table accounts add column aliases jsonb;

-- Gmail's history ids are unsigned numbers of 64 bits; bigint ends one bit before.
alter table accounts alter column history_id type numeric(20);

alter table inbox_items add column left_out text[] not null default '{}';   -- of the mail's people, who would get no copy
alter table inbox_items add column calendars text[] not null default '{}';  -- those in which `conflicts` were looked for

-- Gmail's id of the mail that was put away there, which ended the run; null once that can't be taken back any more.
alter table runs add column closed_with text;
create index runs_closed_with on runs (thread_id) where closed_with is not null;
