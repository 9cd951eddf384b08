-- All tables of this program: one file, edited in place until a version is released; `migrate.py` says what that means
-- for a database. Every row belongs to a user, and every query is scoped to one.

create table schema_hash (                    -- one row: what this file was when the tables were made
    hash  text not null
);
create unique index schema_hash_one on schema_hash ((true));


-- What is asked of several rooms.

-- How long to leave alone what went wrong: `first` at first, then twice as long with each further failure, up to
-- `longest`; by a quarter more or less, so that what failed together does not come back together.
create function back_off(failures int, first interval, longest interval) returns interval language sql volatile as $$
    select least(longest, first * power(2, least(failures, 20))) * (0.75 + random() / 2)
$$;

-- What a mail is found by (inbox.search): words alone, since the parser takes addresses and links for one word each.
-- No expression of more than a megabyte can be indexed, so long ones are cut.
create function mail_words(sender text, subject text, content jsonb) returns tsvector language sql immutable as $$
    select to_tsvector('simple', translate(
        left(sender || ' ' || coalesce(content->'sender'->>'name', '') || ' ' || subject, 2000) || ' '
            || left(coalesce(content->>'text', ''), 20000),
        '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)))
$$;

-- Everybody whom a mail names as its recipient, in lower case.
create function recipients_of(content jsonb) returns text[] language sql immutable as $$
    select array(select distinct lower(person->>'email') from jsonb_array_elements(
        coalesce(content->'to', '[]') || coalesce(content->'cc', '[]') || coalesce(content->'bcc', '[]')) as person)
$$;

-- Everybody whom a call would reach, as `inbox.recipients.addresses_in` says it. `Name <a@b>` is a recipient too, as
-- `mail.address.address_of` says it: what counts is the address in it. Where a text of the call has what Postgres has
-- no text for (NUL, half of a surrogate pair), it can't look into any of it. No function of ours is called by another:
-- an index calls this one wherever its schema is, and whatever the path.
create function addresses_in(args json) returns text[] language plpgsql immutable as $$
begin
    return array(
        select distinct lower(btrim(coalesce(substring(recipient from '^[^<>]*<([^<>]*)>\s*$'), recipient))) from (
            select args->>'email_address' where json_typeof(args->'email_address') = 'string'
            union all
            select each from (values (args->'additional_recipients'), (args->'attendees')) as lists (list),
                json_array_elements_text(case json_typeof(list) when 'array' then list else '[]' end) as each
        ) as named (recipient));
exception when invalid_text_representation or untranslatable_character then
    return '{}';
end
$$;

-- The arguments of a call, or an answer to it, with `instead` for each text but addresses, times and a mail's subject.
-- A meeting's title goes: it says what the person wrote. What this program never writes is left out.
create function without_text(args json, instead text) returns json language plpgsql immutable as $$
begin
    return case json_typeof(args)
        when 'string' then to_json(instead)
        when 'array' then to_json(array[instead])
        when 'object' then (
            select coalesce(json_object_agg(key, case
                when key in ('email_id', 'email_address', 'additional_recipients', 'from_address', 'attendees',
                             'organizer_email', 'subject', 'start_time', 'end_time', 'timezone', 'url')
                or json_typeof(value) in ('number', 'boolean', 'null') then value
                else to_json(instead) end), '{}') from json_each(args))
        else args end;
exception when data_exception then
    return '{}';
end
$$;

-- When a run ended, and when an item did without an answer.
create function note_end() returns trigger language plpgsql as $$
begin
    new.ended_at := clock_timestamp();
    return new;
end
$$;


-- People and their mailboxes.

create table users (
    id          uuid primary key default gen_random_uuid(),
    name        text not null unique,
    vapid_key   bytea,                        -- what their browsers know us by (web push), encrypted
    created_at  timestamptz not null default now()
);

insert into users (name) values ('home');

-- The browsers that are logged in. Neither the secret of a session nor the token can be had from a row.
create table sessions (
    id          uuid primary key default gen_random_uuid(),
    user_id     uuid not null references users,
    secret_hash bytea not null unique,         -- of what the browser keeps as a cookie
    token_mark  bytea not null,                -- of the token that it was begun with: with another one it is over
    host        text not null,                 -- the name or address that it was begun at; it counts at no other
    browser     text not null,                 -- such as "Firefox on Linux", as the browser says
    began_at    timestamptz not null default clock_timestamp(),
    seen_at     timestamptz not null default clock_timestamp(),
    expires_at  timestamptz not null
);
create index sessions_of_user on sessions (user_id, seen_at);

-- Who has stopped everything, and when. Their accounts that were active are `stopped` until they go on.
create table stops (
    user_id  uuid primary key references users,
    at       timestamptz not null default clock_timestamp()
);

-- When a person stopped everything; null: they have not, or it goes on.
create function stopped_since(person uuid) returns timestamptz language sql stable as $$
    select at from stops where user_id = person
$$;

create table accounts (
    id            uuid primary key default gen_random_uuid(),
    user_id       uuid not null references users,
    address       text not null,
    provider      text not null,              -- the server it is on: only processes of that provider touch it
    name          text not null default '',
    signature     text not null default '',   -- plain text
    aliases       jsonb,                      -- what it sends from besides its own address, {address, name, signature,
                                              -- default}; null: not asked for yet
    described_at  timestamptz,                -- name, signature and timezone were read then
    timezone      text,                       -- IANA name, from the account's calendar
    background    text not null default '',   -- who the person is, for the prompts
    introduced    boolean not null default false,  -- they were asked who they are, and have answered, be it with nothing
    token         bytea not null,             -- authorized-user JSON, encrypted
    history_id    numeric(20),                -- the mailbox cursor: Gmail's are unsigned numbers of 64 bits
    listed_at     timestamptz,                -- the cursor was good at this time
    triage_since  timestamptz not null,       -- older mail is stored and not triaged
    state         text not null default 'active' check (state in ('active', 'paused', 'stopped', 'login', 'removing')),
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

    unrecorded_since   timestamptz,           -- between a backup and its restore: what the account sent then the ledger
    unrecorded_until   timestamptz,           -- does not know

    unique (user_id, address)
);

create table quota (                          -- what was spent at Google of late: leaky buckets
    name          text primary key,           -- gmail/<account>, calendar/<account>, project/<hash of OAuth client>
    account_id    uuid references accounts on delete cascade,  -- null for a project's
    level         double precision not null default 0,
    at            timestamptz not null default clock_timestamp(),  -- the level is of then
    closed_until  timestamptz not null default '-infinity'         -- Google said so
);

create table model_refusals (                  -- servers of models that refuse, whoever asks (db/model_servers.py)
    server    text not null,                  -- its base URL
    model     text not null,                  -- '': whatever model it is asked for
    reason    text not null,                  -- in words, its own among them
    refusals  integer not null default 1,     -- in a row
    probed    boolean not null,               -- it refuses the smallest question too
    since     timestamptz not null default clock_timestamp(),
    next_at   timestamptz not null,           -- one of those who wait asks again then
    primary key (server, model)
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

-- Mail that the person had forgotten, by Gmail's id alone: it still lies in Gmail, and is not to be read from there
-- again.
create table forgotten (
    account_id uuid not null references accounts on delete cascade,
    gmail_id   text not null,
    user_id    uuid not null references users,
    at         timestamptz not null default clock_timestamp(),
    primary key (account_id, gmail_id)
);


-- Conversations, and the work on them. Open work is found by account, conversation and when it comes due: what backs
-- off, or waits for the person, is passed over by the index, however much of it there is.

-- Who works on mail, or last did: whether it still does, its advisory lock tells (db/presence.py).
create table presences (
    holder    bigint primary key,             -- the key of that lock
    provider  text not null,                  -- whose accounts it works on
    workers   bigint[] not null default '{}', -- as the queue knows it: one for each of its queues
    seen_at   timestamptz not null default clock_timestamp()  -- its last sign of life, written once a minute
);
create index presences_last on presences (provider, seen_at);

create table threads (
    id           uuid primary key default gen_random_uuid(),
    user_id      uuid not null references users,
    account_id   uuid not null references accounts on delete cascade,
    gmail_id     text,                                      -- Gmail's, of a conversation by mail
    chat_id      text,                                      -- the client's, of one with the assistant itself
    lease_until  timestamptz not null default '-infinity',
    epoch        bigint not null default 0,
    holder       bigint,                                    -- who holds the lease, as in `presences`: that of one whose
                                                            -- process has ended need not run out (db/presence.py)
    cut_short    bigint,                                    -- the last epoch whose lease was claimed before its term
    not_before   timestamptz not null default '-infinity',  -- back-off after a passing fault
    outages      integer not null default 0,                -- passing faults in a row
    waits_for    text,                                      -- the server of a model that refused, which has it go on
    label_after  timestamptz not null default '-infinity',  -- the same for labels alone
    label_faults integer not null default 0,
    complete     boolean not null default false,            -- earlier mail of it has been fetched
    drafted      text,                                      -- Gmail's message id of a draft that somebody wrote or
                                                            -- deleted in it
    unique (account_id, gmail_id),
    unique (user_id, chat_id),
    check (num_nonnulls(gmail_id, chat_id) = 1)
);
create index threads_drafted_due on threads (account_id, not_before, id) where drafted is not null;
create index threads_waiting on threads (waits_for) where waits_for is not null;
create index threads_held on threads (holder) where holder is not null;

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
    not_before     timestamptz not null default '-infinity',  -- never later than its conversation's (`hold_back`)
    superseded_by  uuid,
    closed_with    text,                      -- Gmail's id of the mail that was put away there, which ended the run;
                                              -- null once that can't be taken back any more
    closed_mail_at timestamptz,               -- when that mail came: the oldest is asked for, of however many
    pruned         boolean not null default false,  -- of its checkpoints nothing is left to delete
    created_at     timestamptz not null default clock_timestamp(),
    ended_at       timestamptz,
    unique (thread_id, mail_id, attempt)
);
create unique index runs_turns on runs (thread_id, attempt) where mail_id is null;
create index runs_unpruned on runs (created_at) where not pruned;
create index runs_by_time on runs (user_id, created_at, id);
create index runs_open on runs (thread_id) where state in ('running', 'waiting', 'acting');
create index runs_running_due on runs (account_id, not_before, thread_id) where state = 'running';
create index runs_acting_due on runs (account_id, not_before, thread_id) where state = 'acting';
create index runs_put_away on runs (account_id, thread_id) where closed_with is not null;
-- What is asked where Gmail has forgotten a mailbox's cursor, however much mail is stored; so is `mails_waiting`.
create index runs_closed_by_time on runs (account_id, closed_mail_at) where closed_with is not null;
create index runs_closed_with on runs (account_id, closed_with) where closed_with is not null;

create trigger runs_end before update on runs for each row
    when (new.state in ('done', 'failed', 'superseded') and new.state <> old.state) execute function note_end();

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
    has_text        boolean not null default true,  -- it was not taken out of its conversation after its time
    received_at     timestamptz not null,
    state           text not null check (state in ('new', 'triaging', 'waiting', 'acting', 'done', 'failed')),
    classification  text check (classification in ('ignore', 'notify', 'respond')),
    stage           text,                     -- which stage of triage gave it its class: rules, habits, model, fixed,
                                              -- report (on a letter of ours) or person; null: it has none
    reason          text,
    triage_reason   text,                     -- why it has its class
    triaged_at      timestamptz,
    put_away        text,                     -- what the person did with it in Gmail, so that it needs no work
    labelled        text check (labelled in ('ignore', 'notify', 'respond', 'none')),  -- the class whose label Gmail
                                              -- shows, set by us; none: given up; null: not yet, or under way
    relabelled      text check (relabelled in ('ignore', 'notify', 'respond')),  -- by the person, to be looked at
    not_before      timestamptz not null default '-infinity',  -- as of its conversation, or earlier, as where it was
    label_after     timestamptz not null default '-infinity',  -- made while that backed off (`hold_back`)
    tries           integer not null default 0,  -- starts of work since its last progress
    run_id          uuid references runs on delete set null,
    primary key (account_id, gmail_id)
);
create index mails_thread on mails (thread_id, received_at);
create index mails_of_run on mails (run_id);
create index mails_by_account on mails (account_id, received_at, gmail_id);
create index mails_by_time on mails (user_id, received_at desc, gmail_id desc) where not own;
create index mails_by_sender on mails (account_id, sender);
create index mails_own on mails (account_id) where own;
create index mails_with_text on mails (account_id, received_at, gmail_id) where has_text;
create index mails_waiting on mails (account_id, received_at, gmail_id) where state = 'waiting';
create index mails_unfinished on mails (state, classification) where state <> 'done';  -- what /metrics counts
create index mails_new_due on mails (account_id, own, not_before, thread_id) where state = 'new';
create index mails_triaging_due on mails (account_id, not_before, thread_id) where state = 'triaging';
create index mails_put_away_due on mails (account_id, not_before, thread_id)
    where state = 'waiting' and put_away is not null;
create index mails_unshown_due on mails (account_id, label_after, triaged_at, thread_id)
    where labelled is null and classification is not null;
create index mails_moved_due on mails (account_id, label_after, thread_id) where relabelled is not null;
create index mails_words on mails using gin (mail_words(sender, subject, content)) where not own;
create index mails_own_words on mails using gin (mail_words(sender, subject, content)) where own;
create index mails_written_to on mails using gin (recipients_of(content)) where own;

create function tell_closed() returns trigger language plpgsql as $$
begin
    new.closed_mail_at := (select received_at from mails
                           where account_id = new.account_id and gmail_id = new.closed_with);
    return new;
end
$$;
create trigger runs_closed before update of closed_with on runs for each row
    when (new.closed_with is distinct from old.closed_with) execute function tell_closed();

-- Whom a mailbox's own mail was sent to, apart from what that mail says: it is asked for with each proposal to somebody
-- new, and years of letters are read slowly.
create table sent_to (
    account_id uuid not null,
    gmail_id   text not null,
    user_id    uuid not null references users,
    at         timestamptz not null,
    people     jsonb not null,
    primary key (account_id, gmail_id),
    foreign key (account_id, gmail_id) references mails on delete cascade
);
create function people_of(content jsonb) returns jsonb language sql immutable as $$
    select coalesce(content->'to', '[]') || coalesce(content->'cc', '[]') || coalesce(content->'bcc', '[]')
$$;
create function tell_sent_to() returns trigger language plpgsql as $$
begin
    insert into sent_to (account_id, gmail_id, user_id, at, people)
    values (new.account_id, new.gmail_id, new.user_id, new.received_at, people_of(new.content))
    on conflict (account_id, gmail_id) do update set at = excluded.at, people = excluded.people;
    return null;
end
$$;
create trigger mails_sent_to after insert or update of own, content, received_at on mails for each row
    when (new.own) execute function tell_sent_to();

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


-- The inbox.

create table inbox_items (
    id             uuid primary key default gen_random_uuid(),
    user_id        uuid not null references users,
    account_id     uuid references accounts on delete cascade,  -- null, with the two below: another agent's call, which
    thread_id      uuid references threads on delete cascade,   -- is the owner's alone
    run_id         uuid references runs on delete cascade,
    mail_id        text,                      -- null: it comes from a chat
    call_id        text not null,
    interrupt_id   text,                      -- null where no interrupt raised it (kinds in_doubt and link)
    group_id       text,                      -- what belongs together: the calls of one message of a model are one
                                              -- proposal; null: it is of none
    kind           text not null check (kind in ('draft', 'meeting', 'confirmation', 'notification', 'question', 'link',
                                                 'in_doubt')),
    action         text not null,
    args           json not null,             -- json, not jsonb: fields keep their order
    allowed        text[] not null,
    mail_text      text not null,             -- the mail as the item shows it
    marks          json not null,             -- [{kind, address, text}] of whom it would reach
    doubts         jsonb not null default '[]',  -- what nobody has said of a proposal, or whom it tells what they have
                                              -- not seen: [{kind, value, source, unseen_by}]
    first_answer   text,                      -- the From that is answered, if it was never written to
    left_out       text[] not null default '{}',  -- of the mail's people, who would get no copy
    conflicts      text[] default '{}',       -- what stood in the calendar at a proposed time; null: not known
    calendars      text[] not null default '{}',  -- those in which `conflicts` were looked for
    because        text,                      -- why a person is asked, where their own rule would not have it
    typed          text[] not null default '{}',  -- addresses that its edit has and no proposal before had
    teachable      boolean not null default false,  -- whether an answer to it can be learned from
    teaches        boolean not null,          -- whether the one that it was given is: the person may have said not to
    asked          integer not null default 1,  -- the how manieth time the person is asked about its call
    asked_because  text,                      -- why it is asked again
    status         text not null default 'pending'
                   check (status in ('pending', 'decided', 'applied', 'superseded', 'expired')),
    decision       json,                      -- {type, args}
    decided_by     text,
    decided_at     timestamptz,
    undo_until     timestamptz,
    taken_back     json,                      -- the edit or the feedback that was taken back, {type, args}, for the
                                              -- person to go on with
    reopened       json,                      -- of a part that was accepted and is asked about again, since another
                                              -- part was not: {because, item, decision, decided_by, decided_at,
                                              -- undo_until, args}. `item` is the one that was not; the rest is what the
                                              -- answer was, so that it comes back if that one's answer is taken back.
                                              -- `args` are those that were proposed at first, where the person had
                                              -- edited them
    reopened_at    timestamptz,
    applied_at     timestamptz,
    learn_after    timestamptz not null default '-infinity',  -- back-off after a failed try
    learning_until timestamptz not null default '-infinity',  -- a worker is at it
    learn_tries    integer not null default 0,
    learned_at     timestamptz,
    superseded_by  uuid,                      -- the run that took its place
    ended_at       timestamptz,               -- superseded or expired then
    snoozed_until  timestamptz,
    not_before     timestamptz not null default '-infinity',  -- as of its conversation, or earlier (`hold_back`)
    urgency        smallint not null generated always as (
                       case kind when 'in_doubt' then 0 when 'meeting' then 1 when 'confirmation' then 1
                                 when 'question' then 2 when 'link' then 2 when 'draft' then 3 else 4 end) stored,
    words          tsvector not null default '',  -- what it can be found by (inbox.search)
    created_at     timestamptz not null default clock_timestamp(),
    unique (run_id, interrupt_id),
    -- Postgres keeps JSON as text, and finds out only as it looks into it that a string there is none (NUL, half of a
    -- surrogate pair): then all that is read together fails. It looks into answers, and this program writes no such
    -- text into them. In jsonb each string is looked at as it is written, so the database refuses an answer that
    -- somebody else damages in this way.
    constraint inbox_items_sound check (
        (decision is null or decision::jsonb is not null) and (taken_back is null or taken_back::jsonb is not null)
        and (reopened is null or reopened::jsonb is not null))
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
create index inbox_items_reopened on inbox_items (user_id, reopened_at) where reopened_at is not null;
create index inbox_items_by_decision on inbox_items (account_id, decided_at) where decided_at is not null;
create index inbox_items_of_mail on inbox_items (account_id, mail_id);
create index inbox_items_of_thread on inbox_items (thread_id);  -- what hangs on a conversation that goes
create index inbox_items_open on inbox_items (run_id) where status in ('pending', 'decided');
create index inbox_items_due on inbox_items (account_id, greatest(undo_until, not_before), thread_id)
    where status = 'decided';
create index inbox_items_unlearned on inbox_items (account_id, applied_at)
    where status = 'applied' and teaches and learned_at is null;
create index inbox_items_words on inbox_items using gin (words);
create index inbox_items_proposed on inbox_items using gin (addresses_in(args));
create index inbox_items_typed on inbox_items using gin (typed) where typed <> '{}';

create trigger inbox_items_end before update on inbox_items for each row
    when (new.status in ('superseded', 'expired') and new.status <> old.status) execute function note_end();

create table asked_recipients (               -- what Gmail's own search said: were they ever written to?
    account_id  uuid not null references accounts on delete cascade,
    address     text not null,                -- lower case
    user_id     uuid not null references users,
    written     boolean not null,             -- a no counts only until there is sent mail to them here, or an effect
    asked_at    timestamptz not null default clock_timestamp(),
    primary key (account_id, address)
);

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


-- What leaves.

-- One ledger: the effect of a run's call, mail that a program sends under a key of its own, and the daily mail to
-- oneself.
create table effects (
    account_id      uuid not null references accounts on delete cascade,
    key             text not null,            -- run/call, or program/ or digest/ and a hash: each is done once
    user_id         uuid not null references users,
    run_id          uuid references runs on delete cascade,  -- null, with the two below: it is of no call
    call_id         text,
    thread_id       uuid references threads on delete cascade,
    tool            text not null,
    args            json not null default '{}',
    args_hash       text not null,            -- another action under the same key is refused
    recipient       text,                     -- to count replies per correspondent
    place           text,                     -- where it was to be done when it was begun, or when the person was asked
                                              -- about it last; null: nothing can be said of that
    epoch           bigint,
    state           text not null default 'planned'
                    check (state in ('planned', 'started', 'done', 'failed', 'refused', 'unknown')),
    left_as         text check (left_as in ('refused', 'unknown')),  -- as what the person said to leave it
    limited_since   timestamptz,              -- the other side has taken no more since then
    mark            text,                     -- what a letter is recognised by at Gmail, once it is begun
    draft_id        text,                     -- Google's; only this draft may be sent
    orphans         text[] not null default '{}',  -- drafts of fenced workers, to be deleted and never adopted
    lost_draft      text,                     -- what a draft is recognised by whose creation was not answered
    overwritten     text,                     -- what the person had written into its draft at Gmail before it was sent
    gmail_thread    text,                     -- Gmail's id of the thread that a mail goes into
    sent_thread     text,                     -- Gmail's id of the thread that a letter stands in since it was sent
    external_id     text,                     -- Google's id of the sent message or the event
    message_id      text,                     -- by which a letter's recipients know it: Gmail gives it one of its own,
                                              -- which is read back from the sent copy
    result          text,
    looks           integer not null default 0,  -- times that Google was asked whether it happened
    started_at      timestamptz,              -- the first time
    last_started_at timestamptz,
    finished_at     timestamptz,
    primary key (account_id, key),
    constraint effects_of_call_check check (num_nulls(run_id, call_id, thread_id) in (0, 3))
);
create unique index effects_of_call on effects (run_id, call_id);
create index effects_of_thread on effects (thread_id);
create index effects_started on effects (thread_id) where state = 'started';
create index effects_into on effects (account_id, gmail_thread) where gmail_thread is not null;
create index effects_recipient on effects (account_id, recipient, finished_at) where state = 'done';
create index effects_reached on effects using gin (addresses_in(args)) where state = 'done';
create index effects_lost_drafts on effects (finished_at) where lost_draft is not null;
create index effects_by_message_id on effects (account_id, message_id) where message_id is not null;
create index effects_unread on effects (account_id, external_id) where message_id is null and sent_thread is not null;
create index effects_by_state on effects (state, finished_at);  -- what /metrics counts

-- By which id its recipients know a letter is read back from the sent copy, whichever of the two is stored first.
create function read_back() returns trigger language plpgsql as $$
begin
    update effects set message_id = new.content->>'message_id'
        where account_id = new.account_id and external_id = new.gmail_id and message_id is null
        and sent_thread is not null;
    return null;
end
$$;
create trigger mails_read_back after insert on mails for each row when (new.own) execute function read_back();
create function is_read_back() returns trigger language plpgsql as $$
begin
    new.message_id := (select content->>'message_id' from mails
                       where account_id = new.account_id and gmail_id = new.external_id and own);
    return new;
end
$$;
create trigger effects_read_back before update of external_id on effects for each row
    when (new.external_id is not null and new.sent_thread is not null) execute function is_read_back();

-- What mail systems reported of letters that were sent, which changes nothing of what is known of the effect.
create table undelivered (
    account_id  uuid not null,
    key         text not null,                -- the letter's, in `effects`
    user_id     uuid not null references users,
    recipient   text not null,                -- as the letter was sent to them, in lower case
    action      text not null check (action in ('failed', 'delayed')),
    status      text not null,                -- the code (RFC 3463); empty: none was given
    report      text not null,                -- Gmail's id of the mail that said it first
    at          timestamptz not null default clock_timestamp(),
    primary key (account_id, key, recipient, action),
    foreign key (account_id, key) references effects on delete cascade,
    foreign key (account_id, report) references mails on delete cascade deferrable initially deferred  -- stored with it
);
create index undelivered_by_report on undelivered (account_id, report);
create index undelivered_by_time on undelivered (account_id, at);

-- What was reported of a letter: recipient, action and code of each.
create function reported(e effects) returns jsonb language sql stable as $$
    select jsonb_agg(jsonb_build_array(recipient, action, status) order by recipient)
    from undelivered where account_id = e.account_id and key = e.key
$$;

create table left_drafts (                    -- draft mode: a reply for the person to send in Gmail
    run_id          uuid not null references runs on delete cascade,
    call_id         text not null,
    user_id         uuid not null references users,
    account_id      uuid not null references accounts on delete cascade,
    thread_id       uuid not null references threads on delete cascade,
    args            json not null,
    epoch           bigint,
    state           text not null default 'wanted' check (state in ('wanted', 'started', 'left', 'ending', 'gone')),
    waits           boolean not null default false,  -- its proposal still waits for the person
    not_before      timestamptz not null default '-infinity',  -- as of its conversation, or earlier (`hold_back`)
    draft_id        text,                     -- Google's
    mark            text,                     -- the fingerprint of what was left
    found           json,                     -- what the person has made of it in Gmail, as last heard of: {did, text,
                                              -- args, message}; null: it is as we left it
    last_started_at timestamptz,
    primary key (run_id, call_id)
);
create index left_drafts_of_thread on left_drafts (thread_id);
create index left_drafts_open on left_drafts (account_id, thread_id) where state <> 'gone';
create index left_drafts_due on left_drafts (account_id, not_before, thread_id)
    where state in ('wanted', 'started') or state in ('left', 'ending') and not waits;

create function left_draft_made() returns trigger language plpgsql as $$
begin
    new.waits := exists (select from inbox_items where run_id = new.run_id and call_id = new.call_id
                         and status in ('pending', 'decided'));
    return new;
end
$$;
create trigger left_drafts_made before insert on left_drafts for each row execute function left_draft_made();

create function tell_left_draft() returns trigger language plpgsql as $$
begin
    update left_drafts set waits = exists (select from inbox_items where run_id = new.run_id and call_id = new.call_id
                                           and status in ('pending', 'decided'))
        where run_id = new.run_id and call_id = new.call_id;
    return null;
end
$$;
create trigger inbox_items_open_tell_draft after insert on inbox_items for each row
    when (new.status in ('pending', 'decided')) execute function tell_left_draft();
create trigger inbox_items_end_tell_draft after update on inbox_items for each row
    when ((new.status in ('pending', 'decided')) <> (old.status in ('pending', 'decided')))
    execute function tell_left_draft();

-- When a conversation's work comes due is noted beside that work. Tables in the order of `db/order.py`.
create function hold_back() returns trigger language plpgsql as $$
declare
    labels timestamptz := greatest(new.not_before, new.label_after);
begin
    update inbox_items set not_before = new.not_before where id in (
        select id from inbox_items
        where run_id in (select id from runs where thread_id = new.id) and not_before <> new.not_before
        and (status = 'decided' or not_before > new.not_before) order by id for no key update);
    update runs set not_before = new.not_before
        where thread_id = new.id and not_before <> new.not_before
        and (state in ('running', 'acting') or not_before > new.not_before);
    update mails set not_before = new.not_before, label_after = labels
        where thread_id = new.id and (not_before, label_after) <> (new.not_before, labels)
        and (state in ('new', 'triaging', 'waiting') or labelled is null or relabelled is not null
             or not_before > new.not_before or label_after > labels);
    update left_drafts set not_before = new.not_before
        where account_id = new.account_id and thread_id = new.id and not_before <> new.not_before
        and (state <> 'gone' or not_before > new.not_before);
    return null;
end
$$;
create trigger threads_hold_back after update on threads for each row
    when ((new.not_before, new.label_after) is distinct from (old.not_before, old.label_after))
    execute function hold_back();


-- The gate.

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

-- Calls of other people's agents, whom the gate is asked about over HTTP. All of it only grows; how a call stands is
-- read from what there is of it.

create table gate_sessions (
    id         bigint generated always as identity primary key,
    user_id    uuid not null references users,
    name       text not null,                -- the client's id of it
    requests   text[] not null default '{}', -- the person's own words
    created_at timestamptz not null default clock_timestamp(),
    unique (user_id, name)
);

create table gate_requests (                    -- what was asked, and what the gate said of it
    id          bigint generated always as identity primary key,
    user_id     uuid not null references users,
    session_id  bigint not null references gate_sessions,
    call_id     text not null unique,
    tool        text not null,
    arguments   text,                        -- as the client told them
    agent_name  text,
    agent_type  text,
    verdict     text not null check (verdict in ('allow', 'ask', 'deny')),
    reason      text not null,
    labels      jsonb,                       -- what it touches, as was said then; null: nobody had said
    external    boolean not null,
    cleared     boolean not null,
    item_id     uuid unique references inbox_items,  -- by which a person is asked
    waits_until timestamptz,                 -- for the person, and no longer
    holder      bigint,                      -- the process that keeps the client waiting (holder.py); null: not known
    at          timestamptz not null default clock_timestamp()
);
create index gate_requests_of_session on gate_requests (session_id, id);

create table gate_ended (                    -- how a call ended, as was told first
    id          bigint generated always as identity primary key,
    user_id     uuid not null references users,
    session_id  bigint not null references gate_sessions,
    call_id     text not null unique references gate_requests (call_id),
    status      text not null check (status in ('ok', 'error', 'blocked')),
    duration_ms double precision,
    result      text,
    reason      text,                        -- why it was blocked
    at          timestamptz not null default clock_timestamp()
);
create index gate_ended_of_session on gate_ended (session_id, id);

-- What was read in a conversation or a session, and what went out of it: a row for each call, made before it runs. It
-- only grows.
create table gate_calls (
    id         bigint generated always as identity primary key,
    user_id    uuid not null references users,
    account_id uuid references accounts on delete cascade,
    thread_id  uuid references threads on delete cascade,
    run_id     uuid references runs on delete cascade,
    session_id bigint references gate_sessions,  -- another agent's call, which has none of the three above
    call_id    text not null,
    tool       text not null,
    server     text,                         -- that it ran on, if that is not ours
    labels     jsonb,                        -- what it touches, as was said then; null: nobody had said
    external   boolean not null,             -- it reached others than the person
    cleared    boolean not null,             -- all that matters in it came from the person, or their own records
    answer     text,                         -- what it told, up to a length; null: nothing yet
    at         timestamptz not null default clock_timestamp(),
    unique (run_id, call_id)
);
create index gate_calls_of_thread on gate_calls (thread_id, id);
create unique index gate_calls_of_session on gate_calls (session_id, call_id) where session_id is not null;
create index gate_calls_since on gate_calls (session_id, id) where session_id is not null;

-- Whether the client of a held call still waits.
create function gate_waits(b gate_requests) returns boolean language sql volatile as $$
    select b.waits_until > clock_timestamp() and (b.holder is null or exists (
        select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
        and (classid::bigint << 32 | objid::bigint) = b.holder))
$$;

-- What the gate decided and what ran. Triggers write it, whoever writes the rest, and no insert waits for another:
-- `seal_gate_log` links the rows afterwards. It holds no word of mail, so it outlives the account. What it tells of may
-- be forgotten: the row stays in its chain, and another says so.
create table gate_log (
    id     bigint generated always as identity primary key,
    user_id uuid not null references users,
    at     timestamptz not null default clock_timestamp(),
    what   text not null check (what in ('begun', 'ran', 'answered', 'ended', 'forgotten')),
    row_id text not null,                    -- of `gate_requests`, `gate_calls`, `inbox_items` or `gate_ended`
    whose  uuid,                             -- the account that goes with it when it is removed
    digest bytea not null,                   -- of what that row says for good
    place  bigint unique,                    -- in the chain, without gaps; null: it is not sealed yet
    seal   bytea,                            -- of this row and the seal before it
    check ((place is null) = (seal is null))
);
create index gate_log_of_row on gate_log (what, row_id);
create index gate_log_unsealed on gate_log (id) where place is null;

create function gate_digest(variadic parts text[]) returns bytea language sql immutable as $$
    select sha256(convert_to(array_to_json(parts)::text, 'UTF8'))
$$;

create function gate_seal(before bytea, l gate_log, place bigint) returns bytea language sql stable as $$
    select sha256(coalesce(before, '') || gate_digest(
        place::text, l.id::text, extract(epoch from l.at)::text, l.what, l.row_id, l.whose::text, l.digest::text))
$$;

create function seal_gate_log() returns void language plpgsql as $$
declare
    last gate_log;
    next gate_log;
begin
    perform pg_advisory_xact_lock(hashtext('gate_log'), hashtext(current_schema()));
    select * into last from gate_log where place is not null order by place desc limit 1;
    for next in select * from gate_log where place is null order by id loop
        update gate_log set place = coalesce(last.place, 0) + 1,
                            seal = gate_seal(last.seal, next, coalesce(last.place, 0) + 1)
        where id = next.id returning * into last;
    end loop;
end
$$;

create function keep_gate_log() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' and old.place is null
        and row(new.id, new.user_id, new.at, new.what, new.row_id, new.whose, new.digest) is not distinct from
            row(old.id, old.user_id, old.at, old.what, old.row_id, old.whose, old.digest) then
        return new;  -- it is sealed
    end if;
    raise exception 'the log of the gate is never changed';
end
$$;
create trigger gate_log_keep before update or delete on gate_log for each row execute function keep_gate_log();

-- `rows`: of what kind, and which, as the log names them.
create function forget_in_gate_log(kind text, rows text[]) returns void language sql as $$
    insert into gate_log (user_id, what, row_id, digest)
    select l.user_id, 'forgotten', l.what || ' ' || l.row_id, l.digest from gate_log l
    where l.what = kind and l.row_id = any(rows) and not exists (
        select from gate_log f where f.what = 'forgotten' and f.row_id = l.what || ' ' || l.row_id)
    order by l.id
$$;

create function digest_of_begun(b gate_requests) returns bytea language sql stable as $$
    select gate_digest(b.session_id::text, b.call_id, b.tool, b.arguments, b.agent_name, b.agent_type, b.verdict,
                       b.reason, b.labels::text, b.external::text, b.cleared::text, extract(epoch from b.at)::text)
$$;
create function digest_of_ran(c gate_calls) returns bytea language sql stable as $$
    select gate_digest(c.account_id::text, c.thread_id::text, c.run_id::text, c.session_id::text, c.call_id, c.tool,
                       c.server, c.labels::text, c.external::text, c.cleared::text, extract(epoch from c.at)::text)
$$;
create function digest_of_answered(i inbox_items) returns bytea language sql stable as $$
    select gate_digest(i.action, i.args::text, i.status, i.decision->>'type', i.decided_by,
                       extract(epoch from i.decided_at)::text)
$$;
create function digest_of_ended(e gate_ended) returns bytea language sql stable as $$
    select gate_digest(e.session_id::text, e.call_id, e.status, e.duration_ms::text, e.result, e.reason,
                       extract(epoch from e.at)::text)
$$;

create function log_begun() returns trigger language plpgsql as $$
begin
    insert into gate_log (user_id, what, row_id, digest) values (new.user_id, 'begun', new.id, digest_of_begun(new));
    return null;
end
$$;
create trigger gate_requests_log after insert on gate_requests for each row execute function log_begun();

create function log_ran() returns trigger language plpgsql as $$
begin
    insert into gate_log (user_id, what, row_id, whose, digest)
    values (new.user_id, 'ran', new.id, new.account_id, digest_of_ran(new));
    return null;
end
$$;
create trigger gate_calls_log after insert on gate_calls for each row execute function log_ran();

create function log_answered() returns trigger language plpgsql as $$
begin
    insert into gate_log (user_id, what, row_id, digest)
    values (new.user_id, 'answered', new.id, digest_of_answered(new));
    return null;
end
$$;
create trigger inbox_items_log after update on inbox_items for each row
    when (new.run_id is null and new.status <> old.status) execute function log_answered();

create function log_ended() returns trigger language plpgsql as $$
begin
    insert into gate_log (user_id, what, row_id, digest) values (new.user_id, 'ended', new.id, digest_of_ended(new));
    return null;
end
$$;
create trigger gate_ended_log after insert on gate_ended for each row execute function log_ended();


-- What is learned.

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

-- What was learned, once for each change to a rule, so that the person can be told of it and take it back.
create table lessons (
    id            uuid primary key default gen_random_uuid(),
    user_id       uuid not null references users,
    account_id    uuid not null references accounts on delete cascade,
    profile       text not null,
    rule          text not null,              -- its key in the store
    version       integer not null,           -- the version of the rule that this made
    text          text not null,              -- what the rule says since
    removed       boolean not null,           -- it took the rule out of force
    at            timestamptz not null default clock_timestamp(),
    told          text[] not null default '{}',  -- where the person was told of it
    taken_back_at timestamptz,
    unique (account_id, profile, rule, version)
);
create index lessons_by_time on lessons (user_id, at desc);

-- What would be learned, and waits for the person's word, since it would undo a decision of theirs on other mail.
create table lessons_to_confirm (
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

-- What the stage that learned from the person thought of a mail before it was learned from, and what was right. The
-- proof of its error rate is computed from these rows and `past_judgements` alone (features/rehearsal/habits/proof.py).
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

-- Mail of the past, received and sent, as far as a rehearsal reads it: fetched once, and kept until the person has it
-- forgotten, or for its time, counted from when it was read: rehearsals read mail of many months.
create table past_mails (
    account_id   uuid not null references accounts on delete cascade,
    gmail_id     text not null,
    user_id      uuid not null references users,
    thread_id    text not null,              -- Gmail's
    labels       text[] not null,            -- Gmail's ids, as they were when it was fetched
    received_at  timestamptz not null,
    read_at      timestamptz not null default now(),
    content      jsonb not null,             -- the parsed message (mail.message.Mail), its texts cut
    primary key (account_id, gmail_id)
);
create index past_mails_read_at on past_mails (account_id, read_at);
create index past_mails_own_words on past_mails
    using gin (mail_words('', coalesce(content->>'subject', ''), content)) where 'SENT' = any(labels);
create index past_mails_written_to on past_mails using gin (recipients_of(content)) where 'SENT' = any(labels);

-- What a classifier would have thought of the mail of the past, by what was known on the day that it came, and what
-- became of it: evidence of its error rate beside `judgements`. It goes with the mail that it is about.
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


-- How a person is told.

create table channels (                       -- where a person is told of what waits
    id            uuid primary key default gen_random_uuid(),
    user_id       uuid not null references users,
    kind          text not null check (kind in ('push', 'webhook')),
    name          text not null,              -- the server, without what is secret in the address
    address_hash  text not null,
    address       bytea not null,             -- {url, secrets}, encrypted: whoever knows it can write there
    session_id    uuid,                       -- a browser is told for as long as the session in which it asked to be;
                                              -- null: none was needed to ask. No foreign key: a backup leaves sessions
                                              -- out
    state         text not null default 'active' check (state in ('active', 'gone')),
    told_until    timestamptz not null default clock_timestamp(),  -- items from before it need no telling
    told_at       timestamptz,
    tries         integer not null default 0,  -- of the notice that is to be sent
    last_error    text,
    not_before    timestamptz not null default '-infinity',  -- it was just told, a process is at it, or back-off
    created_at    timestamptz not null default clock_timestamp(),
    unique (user_id, address_hash)
);

create table digests (                        -- the daily mail to oneself; its letter is an effect
    account_id    uuid not null references accounts on delete cascade,
    day           date not null,              -- of the account's own timezone
    user_id       uuid not null references users,
    since         timestamptz not null,       -- it tells what was done from then
    until         timestamptz not null,       -- until then
    state         text not null default 'open' check (state in ('open', 'sent', 'empty', 'failed')),
    tries         integer not null default 0,
    last_error    text,
    not_before    timestamptz not null default '-infinity',  -- a process is at it, or back-off
    primary key (account_id, day)
);
create index digests_open on digests (account_id, day) where state = 'open';

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

-- A lesson is told as a change of its account.
create function tell_lesson() returns trigger language plpgsql as $$
begin
    perform pg_notify('email_assistant', json_build_object(
        'user', new.user_id, 'what', 'account', 'id', new.account_id)::text);
    return null;
end
$$;
create trigger lessons_made after insert on lessons for each row execute function tell_lesson();
create trigger lessons_changed after update on lessons for each row
    when (new.taken_back_at is distinct from old.taken_back_at) execute function tell_lesson();

create function tell_chat() returns trigger language plpgsql as $$
begin
    perform pg_notify('email_assistant', json_build_object(
        'user', new.user_id, 'what', 'chat', 'id', new.input->>'chat', 'state', new.state)::text);
    return null;
end
$$;
create trigger turns_made after insert on runs for each row when (new.mail_id is null) execute function tell_chat();
create trigger turns_changed after update on runs for each row
    when (new.mail_id is null and (new.state, new.reason) is distinct from (old.state, old.reason))
    execute function tell_chat();
