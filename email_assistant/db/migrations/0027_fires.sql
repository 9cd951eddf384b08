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
