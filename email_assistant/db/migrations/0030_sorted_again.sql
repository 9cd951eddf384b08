-- What the model said of mail of the past by a set of rules that was tried on it.
create table sorted_again (
    user_id    uuid not null references users,
    account_id uuid not null references accounts on delete cascade,
    mail_id    text not null,              -- Gmail's
    asked      text not null,              -- a hash of the model, and of what stood before the mail, rules among it
    said       text not null check (said in ('ignore', 'notify', 'respond')),
    at         timestamptz not null default clock_timestamp(),
    primary key (account_id, mail_id, asked),
    foreign key (account_id, mail_id) references mails on delete cascade
);
