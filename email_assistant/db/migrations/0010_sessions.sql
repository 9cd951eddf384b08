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

-- A browser is told of what waits for as long as the session in which it asked to be. Null: none was needed to ask, or
-- an older version took it down. No foreign key: a backup leaves the sessions out.
alter table channels add column session_id uuid;
