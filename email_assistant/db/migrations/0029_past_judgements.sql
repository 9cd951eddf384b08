-- What a classifier would have thought of the mail of the past, by what was known on the day that it came, and what became
-- of it: evidence of its error rate beside `judgements`. It goes with the mail that it is about.
create table past_judgements (
    account_id  uuid not null,
    gmail_id    text not null,
    user_id     uuid not null references users,
    thought     text not null check (thought in ('ignore', 'notify', 'respond')),
    confidence  double precision not null,
    version     timestamptz not null,         -- what was known until then is all that it had learned
    truth       text not null check (truth in ('ignore', 'notify', 'respond')),
    known_at    timestamptz not null,
    primary key (account_id, gmail_id),
    foreign key (account_id, gmail_id) references past_mails on delete cascade
);
