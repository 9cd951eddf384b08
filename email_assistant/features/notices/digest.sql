-- All SQL on `digests`, and of what a digest tells; `digest.py` says what each statement is for. `sender` and `subject`
-- are whom something comes from and what it is about: a mail, or a request in a chat. `effects` is a part of others.

-- name: effects
select case when r.mail_id is null then 'You' else m.sender end as sender,
       coalesce(m.subject, left(r.input->>'request', 200)) as subject,
       coalesce(e.result, e.tool) as what, e.finished_at as at
from effects e join runs r on r.id = e.run_id
left join mails m on m.account_id = r.account_id and m.gmail_id = r.mail_id
where e.account_id = %(account)s and e.finished_at > %(since)s and e.finished_at <= %(until)s

-- name: last_errors
select distinct on (a.id) a.address, d.last_error from digests d join accounts a on a.id = d.account_id
where d.user_id = %s order by a.id, d.day desc

-- name: open
insert into digests (account_id, day, user_id, since, until)
select a.id, %(day)s, a.user_id,
       coalesce((select max(until) from digests d where d.account_id = a.id), %(earliest)s), %(now)s
from accounts a where a.id = %(account)s on conflict do nothing

-- name: claim
update digests set not_before = %(until)s, tries = tries + 1
where (account_id, day) = (
    select account_id, day from digests where account_id = %(account)s and state = 'open'
    and not_before <= %(now)s order by day limit 1 for update skip locked)
returning account_id, day, since, until, tries

-- name: put_off
update digests set not_before = %s + back_off(tries - 1, '1 minute', '30 minutes'), last_error = %s
where account_id = %s and day = %s

-- name: end
update digests set state = %s, last_error = %s where account_id = %s and day = %s and state = 'open'

-- name: waiting
select i.id, case when r.mail_id is null then 'You' else m.sender end as sender,
       coalesce(m.subject, left(r.input->>'request', 200)) as subject, i.kind as what, i.created_at as at
from inbox_items i join runs r on r.id = i.run_id
left join mails m on m.account_id = i.account_id and m.gmail_id = i.mail_id
where i.account_id = %(account)s and i.status = 'pending'
  and (i.snoozed_until is null or i.snoozed_until <= %(until)s)

-- name: done
{effects} and e.state = 'done'

-- name: failed
{effects} and e.state = 'failed' union all
select sender, subject, coalesce(reason, 'failed'), received_at from mails
where account_id = %(account)s and state = 'failed' and received_at > %(until)s - interval '7 days'

-- name: left
select count(*) as n from mails where account_id = %(account)s and classification = 'ignore'
and not own and received_at > %(since)s and received_at <= %(until)s
