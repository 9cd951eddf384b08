-- Every row belongs to a user, and every query is scoped to one.

create table users (
    id          uuid primary key default gen_random_uuid(),
    name        text not null unique,
    vapid_key   bytea,                        -- what their browsers know us by (web push), encrypted
    created_at  timestamptz not null default now()
);

create table accounts (
    id            uuid primary key default gen_random_uuid(),
    user_id       uuid not null references users,
    address       text not null,
    provider      text not null,              -- the server it is on: only processes of that provider touch it
    name          text not null default '',
    signature     text not null default '',   -- plain text
    described_at  timestamptz,                -- name, signature and timezone were read then
    timezone      text,                       -- IANA name, from the account's calendar
    background    text not null default '',   -- who the person is, for the prompts
    token         bytea not null,             -- authorized-user JSON, encrypted
    history_id    bigint,                     -- the mailbox cursor
    listed_at     timestamptz,                -- the cursor was good at this time
    triage_since  timestamptz not null,       -- older mail is stored and not triaged
    state         text not null default 'active' check (state in ('active', 'paused', 'login', 'removing')),
    mode          text not null default 'send' check (mode in ('shadow', 'draft', 'send')),
    last_error    text,
    poll_after    timestamptz not null default '-infinity',  -- Google said to come back then
    syncing_until timestamptz not null default '-infinity',  -- a process looks into the mailbox
    spent_until   timestamptz not null default '-infinity',  -- the day's budget is spent; the next midnight
    watch_topic   text,                       -- Gmail was asked to tell this Pub/Sub topic of new mail
    watch_until   timestamptz,                -- it does so until then; null: not now
    watch_after   timestamptz not null default '-infinity',  -- it is asked again then
    watch_error   text,                       -- why it does not
    login_at      timestamptz not null default now(),        -- the token is from then
    login_ends    timestamptz,                -- Google ends the login by itself then; null: it did not say
    scopes        text[],                     -- what the person has allowed; null: not known, from a token file
    labels        jsonb not null default '{}',               -- Gmail's ids of the labels for classes, by name
    created_at    timestamptz not null default now(),

    backfilled_at      timestamptz,           -- all mail from before triage_since has been fetched
    backfilling_until  timestamptz not null default '-infinity',  -- a process is at it
    backfill_total     integer,               -- messages to fetch; null before they are listed, and after the last
    backfill_done      integer,               -- of them, when the last batch ended
    backfill_at        timestamptz,           -- the last batch ended
    backfill_seconds   double precision not null default 0,  -- of late, so long was worked on it
    backfill_messages  double precision not null default 0,  -- and so many were fetched meanwhile

    unique (user_id, address)
);

create table backfill (                       -- older mail that is still to be fetched
    account_id  uuid not null references accounts on delete cascade,
    gmail_id    text not null,
    user_id     uuid not null references users,
    thread_id   text not null,                -- Gmail's
    position    integer not null,             -- 1 is the newest
    primary key (account_id, gmail_id)
);
create index backfill_by_position on backfill (account_id, position);

create table quota (                          -- what was spent at Google of late: leaky buckets
    name          text primary key,           -- gmail/<account>, calendar/<account>, project/<hash of OAuth client>
    account_id    uuid references accounts on delete cascade,  -- null for a project's
    level         double precision not null default 0,
    at            timestamptz not null default clock_timestamp(),  -- the level is of then
    closed_until  timestamptz not null default '-infinity'         -- Google said so
);

create table threads (
    id           uuid primary key default gen_random_uuid(),
    user_id      uuid not null references users,
    account_id   uuid not null references accounts on delete cascade,
    gmail_id     text,                                      -- Gmail's, of a conversation by mail
    chat_id      text,                                      -- the client's, of one with the assistant itself
    lease_until  timestamptz not null default '-infinity',
    epoch        bigint not null default 0,
    not_before   timestamptz not null default '-infinity',  -- back-off after a passing fault
    outages      integer not null default 0,                -- passing faults in a row
    label_after  timestamptz not null default '-infinity',  -- the same for labels alone
    label_faults integer not null default 0,
    complete     boolean not null default false,            -- earlier mail of it has been fetched
    drafted      text,                                      -- Gmail's message id of a draft that somebody wrote or deleted in it
    unique (account_id, gmail_id),
    unique (user_id, chat_id),
    check (num_nonnulls(gmail_id, chat_id) = 1)
);

create index threads_drafted on threads (id) where drafted is not null;

create table runs (
    id             uuid primary key,          -- uuid5(account, Gmail thread, newest mail, attempt)
    user_id        uuid not null references users,
    account_id     uuid not null references accounts on delete cascade,
    thread_id      uuid not null references threads on delete cascade,
    mail_id        text,                      -- Gmail id of the newest mail it covers; null: it is a turn of a chat
    attempt        integer not null,          -- of a chat: which turn
    input          jsonb not null,            -- what its graph was started with
    state          text not null check (state in ('running', 'waiting', 'acting', 'done', 'failed', 'superseded')),
    reason         text,
    answer         text,                      -- of a chat: what the assistant said in the end
    tries          integer not null default 0,  -- of a chat: starts of work since its last progress
    superseded_by  uuid,
    pruned         boolean not null default false,  -- only its last checkpoint is left
    created_at     timestamptz not null default clock_timestamp(),
    ended_at       timestamptz,
    unique (thread_id, mail_id, attempt)
);
create unique index runs_turns on runs (thread_id, attempt) where mail_id is null;
create index runs_unpruned on runs (created_at) where not pruned;
create index runs_by_time on runs (user_id, created_at, id);
create index runs_open on runs (thread_id) where state in ('running', 'waiting', 'acting');

create table mails (
    account_id      uuid not null references accounts on delete cascade,
    gmail_id        text not null,
    user_id         uuid not null references users,
    thread_id       uuid not null references threads on delete cascade,
    own             boolean not null,         -- sent by the account itself
    sender          text not null,            -- bare address, lower case
    subject         text not null,
    content         jsonb not null,           -- the parsed message (mail.message.Mail)
    readable        boolean not null default true,  -- whether Gmail gave it; if not, there is nothing to work on
    received_at     timestamptz not null,
    state           text not null check (state in ('new', 'triaging', 'waiting', 'acting', 'done', 'failed')),
    classification  text check (classification in ('ignore', 'notify', 'respond')),
    reason          text,
    triage_reason   text,                     -- why it has its class
    triaged_at      timestamptz,
    put_away        text,                     -- what the person did with it in Gmail, so that it needs no work
    labelled        text check (labelled in ('ignore', 'notify', 'respond', 'none')),  -- the class whose label Gmail
                                              -- shows, set by us; none: given up; null: not yet, or under way
    relabelled      text check (relabelled in ('ignore', 'notify', 'respond')),  -- by the person, to be looked at
    tries           integer not null default 0,  -- starts of work since its last progress
    run_id          uuid references runs on delete set null,
    primary key (account_id, gmail_id)
);
create index mails_thread on mails (thread_id, received_at);
create index mails_new on mails (thread_id) where state = 'new';
create index mails_triaging on mails (thread_id) where state = 'triaging';
create index mails_of_run on mails (run_id);
create index mails_put_away on mails (thread_id) where state = 'waiting' and put_away is not null;
create index mails_by_time on mails (user_id, received_at desc, gmail_id desc) where not own;
create index mails_by_sender on mails (account_id, sender);
create index mails_unlabelled on mails (triaged_at) where labelled is null and classification is not null;
create index mails_relabelled on mails (thread_id) where relabelled is not null;

-- What a mail is found by (inbox.search): words alone, since the parser takes addresses and links for one word each.
-- No expression of more than a megabyte can be indexed, so long ones are cut.
create function mail_words(sender text, subject text, content jsonb) returns tsvector language sql immutable as $$
    select to_tsvector('simple', translate(
        left(sender || ' ' || coalesce(content->'sender'->>'name', '') || ' ' || subject, 2000) || ' '
            || left(coalesce(content->>'text', ''), 20000),
        '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)))
$$;
create index mails_words on mails using gin (mail_words(sender, subject, content)) where not own;

create table corrections (                    -- of a mail's class, by the person
    id              uuid primary key default gen_random_uuid(),
    user_id         uuid not null references users,
    account_id      uuid not null references accounts on delete cascade,
    mail_id         text not null,
    by              text not null,            -- where it was given
    classification  text not null check (classification in ('ignore', 'notify', 'respond')),
    was             text not null,
    because         text,                     -- why it had that class
    triaged_at      timestamptz,              -- since when it had it
    at              timestamptz not null default clock_timestamp(),
    learned_at      timestamptz,
    foreign key (account_id, mail_id) references mails on delete cascade
);
create index corrections_of_mail on corrections (account_id, mail_id, at);
create index corrections_unlearned on corrections (account_id, at) where learned_at is null;

create table inbox_items (
    id             uuid primary key default gen_random_uuid(),
    user_id        uuid not null references users,
    account_id     uuid not null references accounts on delete cascade,
    thread_id      uuid not null references threads on delete cascade,
    run_id         uuid not null references runs on delete cascade,
    mail_id        text,                      -- null: it comes from a chat
    call_id        text not null,
    interrupt_id   text,                      -- null where no interrupt raised it (kinds in_doubt and link)
    kind           text not null check (kind in ('draft', 'meeting', 'confirmation', 'notification', 'question', 'link',
                                                 'in_doubt')),
    action         text not null,
    args           json not null,             -- json, not jsonb: fields keep their order
    allowed        text[] not null,
    mail_text      text not null,             -- the mail as the item shows it
    new_recipients text[] not null,           -- addresses in args that were never written to before
    conflicts      text[] default '{}',       -- what stood in the calendar at a proposed time; null: not known
    teaches        boolean not null,          -- whether an answer to it is learned from
    status         text not null default 'pending'
                   check (status in ('pending', 'decided', 'applied', 'superseded', 'expired')),
    decision       json,                      -- {type, args}
    decided_by     text,
    decided_at     timestamptz,
    undo_until     timestamptz,
    applied_at     timestamptz,
    learn_after    timestamptz not null default '-infinity',  -- back-off after a failed try
    learning_until timestamptz not null default '-infinity',  -- a worker is at it
    learn_tries    integer not null default 0,
    learned_at     timestamptz,
    superseded_by  uuid,                      -- the run that took its place
    ended_at       timestamptz,               -- superseded or expired then
    snoozed_until  timestamptz,
    urgency        smallint not null generated always as (
                       case kind when 'in_doubt' then 0 when 'meeting' then 1 when 'confirmation' then 1
                                 when 'question' then 2 when 'link' then 2 when 'draft' then 3 else 4 end) stored,
    words          tsvector not null default '',  -- what it can be found by (inbox.search)
    created_at     timestamptz not null default clock_timestamp(),
    unique (run_id, interrupt_id)
);
create unique index inbox_items_in_doubt on inbox_items (run_id, call_id, kind)
    where interrupt_id is null and status in ('pending', 'decided');
create index inbox_items_by_status on inbox_items (user_id, status, created_at, id);
create index inbox_items_by_time on inbox_items (user_id, created_at, id);
create index inbox_items_pending_by_kind on inbox_items (user_id, kind, created_at, id) where status = 'pending';
create index inbox_items_pending_by_account on inbox_items (user_id, account_id, created_at, id)
    where status = 'pending';
create index inbox_items_pending_by_urgency on inbox_items (user_id, urgency, created_at, id) where status = 'pending';
create index inbox_items_pending_counted on inbox_items (user_id, account_id, kind) include (snoozed_until)
    where status = 'pending';
create index inbox_items_snoozed on inbox_items (user_id, snoozed_until)
    where status = 'pending' and snoozed_until is not null;
create index inbox_items_by_decision on inbox_items (account_id, decided_at) where decided_at is not null;
create index inbox_items_of_mail on inbox_items (account_id, mail_id);
create index inbox_items_words on inbox_items using gin (words);
create index inbox_items_open on inbox_items (run_id) where status in ('pending', 'decided');
create index inbox_items_decided on inbox_items (thread_id) where status = 'decided';
create index inbox_items_unlearned on inbox_items (account_id, applied_at) where status = 'applied' and teaches and learned_at is null;

create table agent_inbox_served (             -- what the public Agent Inbox app was shown last
    run_id   uuid not null references runs on delete cascade,
    client   text not null,                   -- hash of what tells its browsers apart
    user_id  uuid not null references users,
    item_id  uuid not null references inbox_items on delete cascade,
    at       timestamptz not null default clock_timestamp(),
    primary key (run_id, client)
);

create table agent_inbox_approvals (          -- what it posted, since it may post it again
    run_id   uuid not null references runs on delete cascade,
    words    text not null,                   -- hash of the answer, word for word
    user_id  uuid not null references users,
    item_id  uuid not null references inbox_items on delete cascade,  -- the one item that it is for
    taken    boolean not null default false,
    primary key (run_id, words)
);

create table effects (
    run_id       uuid not null references runs on delete cascade,
    call_id      text not null,
    user_id      uuid not null references users,
    account_id   uuid not null references accounts on delete cascade,
    thread_id    uuid not null references threads on delete cascade,
    tool         text not null,
    args         json not null,
    args_hash    text not null,               -- another action under the same id is refused
    recipient    text,                        -- to count replies per correspondent
    epoch        bigint,
    state        text not null default 'planned' check (state in ('planned', 'started', 'done', 'failed', 'unknown')),
    draft_id     text,                        -- Google's; only this draft may be sent
    orphans      text[] not null default '{}',-- drafts of fenced workers, to be deleted and never adopted
    gmail_thread text,                        -- Gmail's id of the thread that a mail goes into
    external_id  text,                        -- Google's id of the sent message or the event
    result       text,
    looks        integer not null default 0,  -- times that Google was asked whether it happened
    started_at   timestamptz,
    finished_at  timestamptz,
    primary key (run_id, call_id)
);
create index effects_started on effects (thread_id) where state = 'started';
create index effects_into on effects (account_id, gmail_thread) where gmail_thread is not null;
create index effects_recipient on effects (account_id, recipient, finished_at) where state = 'done';

create table left_drafts (                    -- draft mode: a reply for the person to send in Gmail
    run_id      uuid not null references runs on delete cascade,
    call_id     text not null,
    user_id     uuid not null references users,
    account_id  uuid not null references accounts on delete cascade,
    thread_id   uuid not null references threads on delete cascade,
    args        json not null,
    epoch       bigint,
    state       text not null default 'wanted' check (state in ('wanted', 'started', 'left', 'ending', 'gone')),
    draft_id    text,                         -- Google's
    mark        text,                         -- the fingerprint of what was left
    primary key (run_id, call_id)
);
create index left_drafts_there on left_drafts (thread_id) where state <> 'gone';

create table outbox (                         -- mail that a program has sent, under a key of its own choice
    account_id  uuid not null references accounts on delete cascade,
    key         text not null,
    user_id     uuid not null references users,
    args_hash   text not null,                -- another mail under the same key is refused
    mark        text,                         -- what it is recognised by at Gmail
    draft_id    text,                         -- Google's; only this draft may be sent
    message_id  text,                         -- Google's id of the sent mail
    thread_id   text,                         -- Google's
    started_at  timestamptz not null default clock_timestamp(),
    primary key (account_id, key)
);

create table mcp_tools (                      -- of somebody else's servers, as a person has seen them
    user_id          uuid not null references users,
    server           text not null,
    tool             text not null,
    hash             text not null,           -- of what the model is told, as accepted
    description      text not null,
    schema           jsonb not null,
    seen_at          timestamptz not null default clock_timestamp(),
    new_hash         text,                    -- of what it is now; null: as accepted
    new_description  text,
    new_schema       jsonb,
    changed_at       timestamptz,
    primary key (user_id, server, tool)
);

create table channels (                       -- where a person is told of what waits
    id            uuid primary key default gen_random_uuid(),
    user_id       uuid not null references users,
    kind          text not null check (kind in ('push', 'webhook')),
    name          text not null,              -- the server, without what is secret in the address
    address_hash  text not null,
    address       bytea not null,             -- {url, secrets}, encrypted: whoever knows it can write there
    state         text not null default 'active' check (state in ('active', 'gone')),
    told_until    timestamptz not null default clock_timestamp(),  -- items from before it need no telling
    told_at       timestamptz,
    tries         integer not null default 0,  -- of the notice that is to be sent
    last_error    text,
    not_before    timestamptz not null default '-infinity',  -- it was just told, a process is at it, or back-off
    created_at    timestamptz not null default clock_timestamp(),
    unique (user_id, address_hash)
);

create table digests (                        -- the daily mail to oneself
    account_id    uuid not null references accounts on delete cascade,
    day           date not null,              -- of the account's own timezone
    user_id       uuid not null references users,
    since         timestamptz not null,       -- it tells what was done from then
    until         timestamptz not null,       -- until then
    state         text not null default 'open' check (state in ('open', 'sent', 'empty', 'failed')),
    started       boolean not null default false,  -- Google may hold a draft of it
    draft_id      text,                       -- Google's; only this draft may be sent
    message_id    text,                       -- Google's id of the sent mail
    tries         integer not null default 0,
    last_error    text,
    not_before    timestamptz not null default '-infinity',  -- a process is at it, or back-off
    primary key (account_id, day)
);
create index digests_open on digests (account_id, day) where state = 'open';

create table model_usage (
    id                 bigint generated always as identity primary key,
    user_id            uuid not null references users,
    account_id         uuid not null references accounts on delete cascade,
    run_id             uuid,
    role               text not null,
    model              text not null,
    prompt_tokens      integer not null,
    completion_tokens  integer not null,
    cost               numeric not null default 0,  -- by the prices of that time
    at                 timestamptz not null default clock_timestamp()
);
create index model_usage_by_time on model_usage (account_id, at);
create index model_usage_of_run on model_usage (run_id);

-- When a run ended, and when an item did without an answer.

create function note_end() returns trigger language plpgsql as $$
begin
    new.ended_at := clock_timestamp();
    return new;
end
$$;
create trigger runs_end before update on runs for each row
    when (new.state in ('done', 'failed', 'superseded') and new.state <> old.state) execute function note_end();
create trigger inbox_items_end before update on inbox_items for each row
    when (new.status in ('superseded', 'expired') and new.status <> old.status) execute function note_end();

-- Every change that a person could see is told at its commit, whoever made it: ids and states, never a word of mail.

create function tell_item() returns trigger language plpgsql as $$
begin
    perform pg_notify('email_assistant', json_build_object(
        'user', new.user_id, 'what', 'item', 'id', new.id, 'kind', new.kind, 'status', new.status)::text);
    return null;
end
$$;
create trigger inbox_items_made after insert on inbox_items for each row execute function tell_item();
create trigger inbox_items_changed after update on inbox_items for each row
    when ((new.status, new.snoozed_until, new.learned_at) is distinct from
          (old.status, old.snoozed_until, old.learned_at)) execute function tell_item();

create function tell_mail() returns trigger language plpgsql as $$
begin
    perform pg_notify('email_assistant', json_build_object(
        'user', new.user_id, 'what', 'mail', 'id', new.gmail_id, 'state', new.state)::text);
    return null;
end
$$;
create trigger mails_made after insert on mails for each row when (not new.own) execute function tell_mail();
create trigger mails_changed after update on mails for each row
    when (not new.own and (new.state, new.classification, new.reason) is distinct from
          (old.state, old.classification, old.reason)) execute function tell_mail();

create function tell_account() returns trigger language plpgsql as $$
begin
    perform pg_notify('email_assistant', json_build_object(
        'user', coalesce(new.user_id, old.user_id), 'what', 'account', 'id', coalesce(new.id, old.id))::text);
    return null;
end
$$;
create trigger accounts_made after insert or delete on accounts for each row execute function tell_account();
create trigger accounts_changed after update on accounts for each row
    when ((new.state, new.mode, new.last_error, new.backfill_done) is distinct from
          (old.state, old.mode, old.last_error, old.backfill_done)) execute function tell_account();

insert into users (name) values ('home');
