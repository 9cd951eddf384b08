-- Mail that the person had forgotten, by Gmail's id alone: it still lies in Gmail, and is not to be read from there again.
create table forgotten (
    account_id uuid not null references accounts on delete cascade,
    gmail_id   text not null,
    user_id    uuid not null references users,
    at         timestamptz not null default clock_timestamp(),
    primary key (account_id, gmail_id)
);

-- What the gate's log tells of may be forgotten. The row of the log stays in its chain, and another says so.
alter table gate_log drop constraint gate_log_what_check;
alter table gate_log add constraint gate_log_what_check
    check (what in ('begun', 'ran', 'answered', 'ended', 'forgotten'));

-- `rows`: of what kind, and which, as the log names them.
create function forget_in_gate_log(kind text, rows text[]) returns void language sql as $$
    insert into gate_log (user_id, what, row_id, digest)
    select l.user_id, 'forgotten', l.what || ' ' || l.row_id, l.digest from gate_log l
    where l.what = kind and l.row_id = any(rows) and not exists (
        select from gate_log f where f.what = 'forgotten' and f.row_id = l.what || ' ' || l.row_id)
    order by l.id
$$;
