-- One ledger of what leaves: beside the effect of a run's call, mail that a program sends under a key of its own, and
-- the daily mail to oneself.

alter table effects
    add column key text,                      -- run/call, program/its key, digest/day: each is done once
    add column mark text,                     -- what a letter is recognised by at Gmail
    add column sent_thread text;              -- Gmail's id of the thread that a letter stands in since it was sent
update effects set key = run_id || '/' || call_id;
alter table effects
    drop constraint effects_pkey,
    add primary key (account_id, key),
    alter column run_id drop not null,
    alter column call_id drop not null,
    alter column thread_id drop not null,
    alter column args set default '{}',
    add constraint effects_of_call_check check (num_nulls(run_id, call_id, thread_id) in (0, 3));
create unique index effects_of_call on effects (run_id, call_id);

insert into effects (account_id, key, user_id, tool, args_hash, state, mark, draft_id, external_id, sent_thread,
                     started_at, last_started_at, finished_at)
    select account_id, 'program/' || key, user_id, 'program', args_hash,
           case when message_id is not null then 'done' when mark is not null then 'started' else 'planned' end,
           mark, draft_id, message_id, thread_id, started_at, started_at,
           case when message_id is not null then started_at end
    from outbox;
insert into effects (account_id, key, user_id, tool, args_hash, state, mark, draft_id, started_at, last_started_at)
    select account_id, 'digest/' || to_char(day, 'YYYY-MM-DD'), user_id, 'digest', encode(sha256('{}'), 'hex'),
           'started', 'digest/' || to_char(day, 'YYYY-MM-DD'), draft_id, until, until
    from digests where state = 'open' and started;

-- What follows is for processes of the version before, which may be at work beside those of this one.

create function keyed_by_call() returns trigger language plpgsql as $$
begin
    new.key := coalesce(new.key, new.run_id || '/' || new.call_id);
    if new.state = 'planned' then
        new.mark := null;  -- it is of what was begun; the arguments may be others now
    end if;
    return new;
end
$$;
create trigger effects_keyed_by_call before insert or update on effects for each row execute function keyed_by_call();

drop table outbox;
create view outbox as
    select account_id, substr(key, 9) as key, user_id, args_hash, mark, draft_id, external_id as message_id,
           sent_thread as thread_id, coalesce(started_at, clock_timestamp()) as started_at
    from effects where tool = 'program';
create function posted_before() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into effects (account_id, key, user_id, tool, args_hash, started_at)
            values (new.account_id, 'program/' || new.key, new.user_id, 'program', new.args_hash, clock_timestamp())
            on conflict do nothing;
    else
        -- The first draft that is stored is the one that may be sent, and the first mail the one that was.
        update effects set
            state = case when coalesce(external_id, new.message_id) is null then 'started' else 'done' end,
            mark = case when new.mark is distinct from old.mark then new.mark else mark end,
            draft_id = coalesce(draft_id, new.draft_id),
            external_id = coalesce(external_id, new.message_id),
            sent_thread = coalesce(sent_thread, new.thread_id),
            started_at = coalesce(started_at, clock_timestamp()),
            last_started_at = clock_timestamp(),
            finished_at = case when coalesce(external_id, new.message_id) is not null then clock_timestamp() end
        where account_id = old.account_id and key = 'program/' || old.key;
    end if;
    return new;
end
$$;
create trigger outbox_posted_before instead of insert or update on outbox
    for each row execute function posted_before();

-- They keep a digest's draft in `digests`.
create function digest_begun_before() returns trigger language plpgsql as $$
begin
    insert into effects (account_id, key, user_id, tool, args_hash, state, mark, draft_id, started_at, last_started_at)
        values (new.account_id, 'digest/' || to_char(new.day, 'YYYY-MM-DD'), new.user_id, 'digest',
                encode(sha256('{}'), 'hex'), 'started', 'digest/' || to_char(new.day, 'YYYY-MM-DD'), new.draft_id,
                clock_timestamp(), clock_timestamp())
        on conflict (account_id, key) do update
            set state = case when effects.state = 'planned' then 'started' else effects.state end,
                mark = excluded.mark, draft_id = coalesce(effects.draft_id, excluded.draft_id),
                started_at = coalesce(effects.started_at, excluded.started_at);
    return null;
end
$$;
create trigger digests_begun_before after update on digests for each row
    when (pg_trigger_depth() = 0 and new.started and (new.started, new.draft_id) is distinct from (old.started, old.draft_id))
    execute function digest_begun_before();
create function digest_begun() returns trigger language plpgsql as $$
begin
    update digests set started = new.state <> 'planned', draft_id = new.draft_id
        where account_id = new.account_id and 'digest/' || to_char(day, 'YYYY-MM-DD') = new.key;
    return null;
end
$$;
create trigger effects_digest_begun after insert or update on effects for each row
    when (pg_trigger_depth() = 0 and new.tool = 'digest') execute function digest_begun();
