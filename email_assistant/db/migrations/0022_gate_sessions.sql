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

alter table inbox_items
    alter column account_id drop not null,   -- null, with the two below: another agent's call, which is the owner's alone
    alter column thread_id drop not null,
    alter column run_id drop not null;

create table gate_begun (                    -- what was asked, and what the gate said of it
    id          bigint generated always as identity primary key,
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
create index gate_begun_of_session on gate_begun (session_id, id);

create table gate_ended (                    -- how a call ended, as was told first
    id          bigint generated always as identity primary key,
    session_id  bigint not null references gate_sessions,
    call_id     text not null unique references gate_begun (call_id),
    status      text not null check (status in ('ok', 'error', 'blocked')),
    duration_ms double precision,
    result      text,
    reason      text,                        -- why it was blocked
    at          timestamptz not null default clock_timestamp()
);
create index gate_ended_of_session on gate_ended (session_id, id);

alter table gate_calls
    alter column account_id drop not null,
    alter column thread_id drop not null,
    alter column run_id drop not null,
    add column session_id bigint references gate_sessions;
create unique index gate_calls_of_session on gate_calls (session_id, call_id) where session_id is not null;
create index gate_calls_since on gate_calls (session_id, id) where session_id is not null;

-- Whether the client of a held call still waits.
create function gate_waits(b gate_begun) returns boolean language sql volatile as $$
    select b.waits_until > clock_timestamp() and (b.holder is null or exists (
        select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
        and (classid::bigint << 32 | objid::bigint) = b.holder))
$$;

-- What the gate decided and what ran. Triggers write it, whoever writes the rest, and no insert waits for another:
-- `seal_gate_log` links the rows afterwards. It holds no word of mail, so it outlives the account.
create table gate_log (
    id     bigint generated always as identity primary key,
    at     timestamptz not null default clock_timestamp(),
    what   text not null check (what in ('begun', 'ran', 'answered', 'ended')),
    row_id text not null,                    -- of `gate_begun`, `gate_calls`, `inbox_items` or `gate_ended`
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
    if tg_op = 'UPDATE' and old.place is null and row(new.id, new.at, new.what, new.row_id, new.whose, new.digest)
        is not distinct from row(old.id, old.at, old.what, old.row_id, old.whose, old.digest) then
        return new;  -- it is sealed
    end if;
    raise exception 'the log of the gate is never changed';
end
$$;
create trigger gate_log_keep before update or delete on gate_log for each row execute function keep_gate_log();

create function digest_of_begun(b gate_begun) returns bytea language sql stable as $$
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
    insert into gate_log (what, row_id, digest) values ('begun', new.id, digest_of_begun(new));
    return null;
end
$$;
create trigger gate_begun_log after insert on gate_begun for each row execute function log_begun();

create function log_ran() returns trigger language plpgsql as $$
begin
    insert into gate_log (what, row_id, whose, digest) values ('ran', new.id, new.account_id, digest_of_ran(new));
    return null;
end
$$;
create trigger gate_calls_log after insert on gate_calls for each row execute function log_ran();

create function log_answered() returns trigger language plpgsql as $$
begin
    insert into gate_log (what, row_id, digest) values ('answered', new.id, digest_of_answered(new));
    return null;
end
$$;
create trigger inbox_items_log after update on inbox_items for each row
    when (new.run_id is null and new.status <> old.status) execute function log_answered();

create function log_ended() returns trigger language plpgsql as $$
begin
    insert into gate_log (what, row_id, digest) values ('ended', new.id, digest_of_ended(new));
    return null;
end
$$;
create trigger gate_ended_log after insert on gate_ended for each row execute function log_ended();

insert into gate_log (what, row_id, whose, digest)
    select 'ran', c.id, c.account_id, digest_of_ran(c) from gate_calls c order by c.id;
