-- All SQL on `undelivered`; `undelivered.py` says what each statement is for.

-- name: letters
-- Sent letters that may be meant. Where the id is not stored with the effect yet, the sent copy has it, be it among those
-- that are about to be stored.
select e.key, e.external_id as copy, coalesce(e.message_id, m.content->>'message_id') as message_id,
       recipients_of(m.content) as recipients
from effects e left join mails m on m.account_id = e.account_id and m.gmail_id = e.external_id and m.own
where e.account_id = %(account)s and e.state = 'done' and e.sent_thread is not null and e.tool <> 'digest'
and (e.message_id = any(%(named)s)
     or e.message_id is null and (m.content->>'message_id' = any(%(named)s) or e.external_id = any(%(copies)s)))

-- name: on_its_way
-- Where a letter is being sent: the ids of the mailbox's own mail among those that are named.
select coalesce(array_agg(m.content->>'message_id') filter (where m.own), '{}') as own
from (select from effects where account_id = %(account)s and state = 'started' and mark is not null limit 1) as e
left join mails m on m.account_id = %(account)s and m.own and m.content->>'message_id' = any(%(named)s)
having count(*) > 0

-- name: unread_copies
-- Whom the letters went to that were sent within a day and whose copy Gmail has not given yet: their id is not known.
select addresses_in(e.args) as recipients from effects e
where e.account_id = %(account)s and e.state = 'done' and e.sent_thread is not null and e.message_id is null
and e.external_id <> all(%(copies)s) and e.tool <> 'digest' and e.finished_at > clock_timestamp() - interval '1 day'
and not exists (select from mails m where m.account_id = e.account_id and m.gmail_id = e.external_id)

-- name: note
insert into undelivered (account_id, key, user_id, recipient, action, status, report)
select account_id, key, user_id, %(recipient)s, %(action)s, %(status)s, %(report)s from effects e
where account_id = %(account)s and key = %(key)s
and not exists (select from forgotten f where f.account_id = e.account_id and f.gmail_id = %(report)s)
and not exists (select from undelivered u where u.account_id = e.account_id and u.key = e.key
                and u.recipient = %(recipient)s and u.action = 'failed' and u.report <> %(report)s)
on conflict (account_id, key, recipient, action) do update set report = excluded.report
where undelivered.report = excluded.report
returning report

-- name: shown_of_late
select count(distinct report) as n from undelivered
where account_id = %(account)s and at > clock_timestamp() - interval '1 day' and report <> %(report)s

-- name: told_by
select u.key, u.recipient, u.action, u.status, e.args::text as args, e.sent_thread, m.content
from undelivered u join effects e using (account_id, key)
join mails m on m.account_id = e.account_id and m.gmail_id = e.external_id and m.own
where u.account_id = %(account)s and u.report = %(report)s order by u.recipient
