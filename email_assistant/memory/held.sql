-- All SQL on `lessons_to_confirm`; `lessons.py` says what each statement is for. `read` is part of others.

-- name: read
select h.id, h.account_id, a.address as account, h.profile, h.change, h.origin, h.at,
       array(select jsonb_build_object('mail', b.mail, 'was', b.was, 'becomes', b.becomes,
                                       'sender', coalesce(m.sender, ''), 'subject', coalesce(m.subject, ''))
             from jsonb_to_recordset(h.broken) as b (mail text, was text, becomes text)
             left join mails m on m.account_id = h.account_id and m.gmail_id = b.mail) as broken
from lessons_to_confirm h join accounts a on a.id = h.account_id where h.kept is null and

-- name: page
{read} h.user_id = %(user)s and (%(account)s::uuid is null or h.account_id = %(account)s) order by h.at, h.id

-- name: find
{read} h.user_id = %(user)s and starts_with(h.id::text, %(prefix)s) limit 2

-- name: hold
with older as (
    update lessons_to_confirm set kept = false
    where account_id = %(account)s and profile = %(profile)s and source <> %(source)s and kept is null
    and (change->>'key' = %(key)s or (change - 'key' - 'version') = (%(change)s::jsonb - 'key' - 'version')))
insert into lessons_to_confirm (user_id, account_id, profile, source, change, origin, broken)
select user_id, id, %(profile)s, %(source)s, %(change)s, %(origin)s, %(broken)s
from accounts where id = %(account)s on conflict do nothing

-- name: is_known
select from lessons_to_confirm where account_id = %s and source = %s

-- name: answer
update lessons_to_confirm set kept = %s where id = %s and kept is null returning id

-- name: outdated
update lessons_to_confirm set kept = false
where account_id = %s and origin->>'mail' = %s and source <> %s and kept is null

-- name: forget
delete from lessons_to_confirm h where account_id = %s and h::text ~* %s

-- name: mails_went
update lessons_to_confirm set origin = origin - '{sender,subject,did}'::text[]
where account_id = %(account)s and (origin->>'mail' = any(%(gone)s) or origin->>'item' = any(%(gone)s))
