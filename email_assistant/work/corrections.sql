-- What the person says of mail, for `corrections.py`; each under the lock of the conversation.

-- name: lock
select from threads t join mails m on m.thread_id = t.id join accounts a on a.id = m.account_id
where a.address = %s and m.user_id = %s and m.gmail_id = %s for no key update of t

-- name: may_correct
select from mails where account_id = %s and gmail_id = %s and thread_id = %s
and state in ('waiting', 'done', 'failed') and classification is not null
and not exists (select from runs where thread_id = %s and state in ('running', 'acting'))

-- name: unlearned
select distinct c.account_id from corrections c join accounts a on a.id = c.account_id
where c.learned_at is null and a.provider = %s and a.state = 'active'

-- name: to_learn
select distinct on (c.mail_id) c.id, c.account_id, c.mail_id, m.sender, m.subject, c.by,
       c.classification, c.at,
       (select f.was from corrections f where f.account_id = c.account_id and f.mail_id = c.mail_id
        order by f.at limit 1) as triaged_as
from corrections c join mails m on m.account_id = c.account_id and m.gmail_id = c.mail_id
where c.account_id = %s and c.learned_at is null order by c.mail_id, c.at desc

-- name: learned
update corrections set learned_at = clock_timestamp()
where id in (select id from corrections where account_id = %s and mail_id = %s and at <= %s
             and learned_at is null order by id for no key update)

-- name: lock_rested
select t.id, t.account_id from threads t join mails m on m.thread_id = t.id
       join accounts a on a.id = m.account_id
where a.address = %s and m.user_id = %s and m.gmail_id = %s
and m.state in ('waiting', 'done', 'failed') and m.readable and m.classification is not null
and a.state <> 'removing' and t.lease_until < clock_timestamp()
and not exists (select from runs r where r.thread_id = t.id and r.state in ('running', 'acting'))
for no key update of t

-- name: without_text
-- By what it says of itself: that it has text again is set with each correction.
select from mails where account_id = %s and gmail_id = %s and position(%s in content->>'note') > 0

-- name: keep
insert into corrections (user_id, account_id, mail_id, by, classification, was, because, triaged_at)
select user_id, account_id, gmail_id, %s, %s, classification, triage_reason, triaged_at from mails
where account_id = %s and gmail_id = %s

-- name: waiting_run
select r.id from mails m join runs r on r.id = m.run_id
where m.account_id = %s and m.gmail_id = %s and r.state = 'waiting'

-- name: lock_open
select status from inbox_items where run_id = %s and status in ('pending', 'decided')
order by id for no key update
