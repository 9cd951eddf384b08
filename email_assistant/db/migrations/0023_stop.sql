-- Who has stopped everything, and when. Their accounts that were active are `stopped` until they go on; a process of an
-- earlier version starts nothing for those either.
create table stops (
    user_id  uuid primary key references users,
    at       timestamptz not null default clock_timestamp()
);

alter table accounts drop constraint accounts_state_check,
    add constraint accounts_state_check check (state in ('active', 'paused', 'stopped', 'login', 'removing'));
