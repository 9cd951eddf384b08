-- On which mails a person's rules had a say: of each rule and mail once, however often that was sorted.
create table rule_fires (
    user_id    uuid not null references users,
    account_id uuid not null references accounts on delete cascade,
    profile    text not null,
    rule       text not null,              -- its key in the store
    version    integer not null,           -- what the rule said then
    mail_id    text not null,              -- Gmail's
    at         timestamptz not null default clock_timestamp(),
    primary key (account_id, profile, rule, mail_id)
);

-- What would be learned, and waits for the person's word, since it would undo a decision of theirs on other mail.
create table held_lessons (
    id         uuid primary key default gen_random_uuid(),
    user_id    uuid not null references users,
    account_id uuid not null references accounts on delete cascade,
    profile    text not null,
    source     text not null,              -- the answer or correction that it came of
    change     jsonb not null,             -- what it makes of which rule
    origin     jsonb not null,
    broken     jsonb not null,             -- of each mail that it decides otherwise: {mail, was, becomes}
    at         timestamptz not null default clock_timestamp(),
    kept       boolean,                    -- the person's word; null: it waits for it
    unique (account_id, source)
);
