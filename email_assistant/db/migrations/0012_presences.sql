-- Who works on mail, or last did: whether it still does, its advisory lock tells (holder.py).
create table presences (
    holder    bigint primary key,  -- the key of that lock
    provider  text not null,       -- whose accounts it works on
    seen_at   timestamptz not null default clock_timestamp()  -- its last sign of life, written once a minute
);
create index presences_last on presences (provider, seen_at);
