-- Which stage of triage gave a mail its class: rules, habits, model, fixed or person; null: it was not kept.
alter table mails add column stage text;
create index mails_by_account on mails (account_id, received_at, gmail_id);

-- What the stage that learned from the person thought of a mail before it was learned from, and what was right. The
-- proof of its error rate is computed from these rows alone (triage/cascade.py).
create table judgements (
    account_id  uuid not null,
    mail_id     text not null,
    user_id     uuid not null references users,
    thought     text check (thought in ('ignore', 'notify', 'respond')),  -- null: it knew too little to think anything
    confidence  double precision,             -- the probability that it gave to what it thought
    version     timestamptz,                  -- of the classifier: what was known until then is all that it has learned
    decided     boolean not null default false,  -- it was allowed to give the class by itself
    checked     boolean not null default false,  -- and the model was asked all the same, by lot
    made_at     timestamptz not null default clock_timestamp(),
    truth       text check (truth in ('ignore', 'notify', 'respond')),    -- null: not known yet
    known_at    timestamptz,
    known_by    text,                         -- corrected, answered, said, put away or silence
    primary key (account_id, mail_id),
    foreign key (account_id, mail_id) references mails on delete cascade
);
create index judgements_unknown on judgements (account_id) where truth is null;
create index judgements_by_age on judgements (account_id, made_at);
create index judgements_known on judgements (account_id, known_at, mail_id) where truth is not null;

insert into judgements (account_id, mail_id, user_id, made_at)
select account_id, gmail_id, user_id, coalesce(triaged_at, received_at) from mails
where classification is not null and not own;

-- The versions of each account's classifier that were tried.
create table classifiers (
    account_id    uuid not null references accounts on delete cascade,
    version       timestamptz not null,       -- as that of a judgement
    user_id       uuid not null references users,
    examples      integer not null,           -- that were known when it was tried, those included that it was tried on
    kept          boolean not null,           -- false: it was worse than the one before, which stays
    why           text not null,              -- its figures beside those of the one before
    made_at       timestamptz not null default clock_timestamp(),
    primary key (account_id, version)
);
