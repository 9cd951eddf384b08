-- What was read in a conversation, and what went out of it: a row for each call, made before it runs. It only grows.
create table gate_calls (
    id         bigint generated always as identity primary key,
    user_id    uuid not null references users,
    account_id uuid not null references accounts on delete cascade,
    thread_id  uuid not null references threads on delete cascade,
    run_id     uuid not null references runs on delete cascade,
    call_id    text not null,
    tool       text not null,
    server     text,                     -- that it ran on, if that is not ours
    labels     jsonb,                    -- what it touches, as was said then; null: nobody had said
    external   boolean not null,         -- it reached others than the person
    cleared    boolean not null,         -- all that matters in it came from the person, or their own records
    answer     text,                     -- what it told, up to a length; null: nothing yet
    at         timestamptz not null default clock_timestamp(),
    unique (run_id, call_id)
);
create index gate_calls_of_thread on gate_calls (thread_id, id);

-- What nobody has said of a proposal, or whom it tells what they have not seen: [{kind, value, source, text}].
alter table inbox_items add column doubts jsonb;

-- Processes of an earlier version, beside this one during an upgrade, go by `heard`.
create function gate_calls_heard() returns trigger language plpgsql as $$
begin
    update threads set heard = array_append(heard, coalesce(new.server, 'here'))
    where id = new.thread_id and heard is not null and not coalesce(new.server, 'here') = any(heard)
    and (new.labels is null or (new.labels->>'read_private_data')::boolean);
    return null;
end $$;
create trigger heard after insert on gate_calls for each row execute function gate_calls_heard();
