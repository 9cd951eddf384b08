-- All SQL on `lessons`; `lessons.py` says what each statement is for. `columns` and `read` are parts of others.

-- name: columns
l.id, l.account_id, a.address as account, l.profile, l.rule, l.version, l.text, l.removed, l.at, l.taken_back_at

-- name: read
select {columns} from lessons l join accounts a on a.id = l.account_id where

-- name: news
with told as (
    update lessons set told = array_append(told, %(place)s)
    where id in (select id from lessons where user_id = %(user)s and taken_back_at is null
                 and not %(place)s = any(told) and at > clock_timestamp() - %(news)s::interval
                 order by at, id limit %(most)s for update skip locked)
    returning *)
select {columns} from told l join accounts a on a.id = l.account_id order by l.at, l.id

-- name: between
{read} l.account_id = %(account)s and l.at > %(since)s and l.at <= %(until)s and l.taken_back_at is null
and not 'digest' = any(l.told) order by l.at, l.id limit %(most)s

-- name: page
{read} l.user_id = %(user)s and (%(account)s::uuid is null or l.account_id = %(account)s)
order by l.at desc, l.id limit %(most)s

-- name: find
{read} l.user_id = %(user)s and starts_with(l.id::text, %(prefix)s) limit 2

-- name: note
insert into lessons (user_id, account_id, profile, rule, version, text, removed)
select user_id, id, %(profile)s, %(rule)s, %(version)s, %(text)s, %(removed)s
from accounts where id = %(account)s on conflict do nothing

-- name: is_known
update lessons set told = array['web', 'terminal', 'cli', 'digest']
where account_id = %s and profile = %s and rule = %s

-- name: take_back
update lessons set taken_back_at = clock_timestamp()
where account_id = %s and profile = %s and rule = %s and version = any(%s) and taken_back_at is null

-- name: forget
delete from lessons where account_id = %s and profile = %s and rule = %s
