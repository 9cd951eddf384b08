-- Mail of the past, received and sent, as far as a rehearsal reads it: fetched once, and kept until the person has it
-- forgotten.
create table past_mails (
    account_id   uuid not null references accounts on delete cascade,
    gmail_id     text not null,
    user_id      uuid not null references users,
    thread_id    text not null,              -- Gmail's
    labels       text[] not null,            -- Gmail's ids, as they were when it was fetched
    received_at  timestamptz not null,
    content      jsonb not null,             -- the parsed message (mail.message.Mail), its texts cut
    primary key (account_id, gmail_id)
);
