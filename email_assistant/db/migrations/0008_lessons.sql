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

-- Told as a change of its account, which processes of an earlier version know too.
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

-- The edit or the feedback that was taken back, {type, args}, for the person to go on with.
alter table inbox_items add column taken_back json;

-- A notice can be put away without saying anything about such mail.
update inbox_items set allowed = array_prepend('accept', allowed)
    where kind = 'notification' and status in ('pending', 'decided') and not 'accept' = any(allowed);
