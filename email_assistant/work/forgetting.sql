-- What is to be forgotten, where it stands, and what of it is under way, for `forgetting.py`. `said` is a part of another:
-- whether anything that is stored of conversation `t` matches a pattern. A row's text has all that is in it; of an item
-- without the words that it is found by, which are parts of others.

-- name: said
exists (select from mails m where m.thread_id = t.id and m::text ~* %(named)s)
or exists (select from inbox_items i where i.thread_id = t.id and (to_jsonb(i) - 'words')::text ~* %(named)s)
or exists (select from effects e where e.thread_id = t.id and e::text ~* %(named)s)
or exists (select from left_drafts d where d.thread_id = t.id and d::text ~* %(named)s)
or exists (select from gate_calls c where c.thread_id = t.id and c::text ~* %(named)s)
or exists (select from runs r where r.thread_id = t.id and (
    r::text ~* %(named)s
    or exists (select from checkpoints c where c.thread_id = r.id::text and c::text ~* %(named)s)
    or exists (select from checkpoint_blobs b where b.thread_id = r.id::text
               and encode(b.blob, 'escape') ~* %(inside)s)
    or exists (select from checkpoint_writes w where w.thread_id = r.id::text
               and encode(w.blob, 'escape') ~* %(inside)s)))

-- name: naming
-- All conversations, or chats alone, and reports on letters, which hold what those say.
select t.id, t.account_id from threads t
where t.user_id = %(user)s and (t.chat_id is not null or not %(chats_alone)s or exists (
    select from undelivered u join mails m on m.account_id = u.account_id and m.gmail_id = u.report
    where m.thread_id = t.id)) and ({said}) order by t.id

-- name: of_mail
select m.thread_id as id, m.account_id from mails m join accounts a on a.id = m.account_id
where m.user_id = %(user)s and a.address = %(account)s and m.gmail_id = %(mail)s

-- name: ids
-- By which conversations by mail are named elsewhere: Gmail's of it and of its mails, those of the mails themselves, and
-- the items', of which others are told the beginning.
select gmail_id as id from threads where id = any(%(threads)s) and gmail_id is not null
union select gmail_id from mails where thread_id = any(%(threads)s)
union select btrim(content->>'message_id', '<> ') from mails
    where thread_id = any(%(threads)s) and content->>'message_id' is not null
union select id::text from inbox_items where thread_id = any(%(threads)s)
union select left(id::text, 8) from inbox_items where thread_id = any(%(threads)s)

-- name: subjects
select distinct subject from mails where thread_id = any(%(threads)s)

-- name: shown
select t.id, a.address as account, t.chat_id as chat, m.sender, m.subject,
       (select count(*) from mails where thread_id = t.id)::int as mails,
       (select count(*) from inbox_items where thread_id = t.id and status = 'pending')::int as waiting,
       (select count(*) from inbox_items where thread_id = t.id and status = 'decided')::int as decided,
       (select count(*) from effects where thread_id = t.id and state = 'done')::int as done,
       (select count(*) from left_drafts where thread_id = t.id and state = 'left')::int as drafts
from threads t join accounts a on a.id = t.account_id left join lateral (
    select sender, subject from mails where thread_id = t.id order by received_at, gmail_id limit 1) m on true
where t.id = any(%(threads)s) order by m.subject, t.id

-- name: of_account
select t.id from threads t where account_id = %(account)s order by t.id

-- name: past
select p.gmail_id from past_mails p where p.account_id = %(account)s and (
    p.thread_id in (select gmail_id from threads where id = any(%(threads)s)) or p::text ~* %(named)s)

-- name: readers
-- Runs of other conversations whose tools have told it.
select r.id, r.state in ('running', 'waiting', 'acting') as is_open from runs r
where r.account_id = %(account)s and r.thread_id <> all(%(all)s)
and exists (select from gate_calls c where c.run_id = r.id and c.answer ~* %(named)s)

-- name: runs
select id from runs where thread_id = any(%(threads)s)

-- name: calls
select id from gate_calls where thread_id = any(%(threads)s)

-- name: mails
select gmail_id from mails where thread_id = any(%(threads)s)
union select e.external_id from effects e join threads t on t.id = e.thread_id
    where t.id = any(%(threads)s) and t.gmail_id is not null and e.external_id is not null

-- name: under_way
select id from threads t where id = any(%(threads)s) and (
    lease_until > clock_timestamp()
    or exists (select from effects e where e.thread_id = t.id and e.state = 'started')
    or exists (select from left_drafts d where d.thread_id = t.id and d.state = 'started')) limit 1

-- name: keep_away
insert into forgotten (account_id, gmail_id, user_id)
select a.id, m, a.user_id from accounts a, unnest(%(mails)s::text[]) as m where a.id = %(account)s
on conflict do nothing

-- name: held_calls
select count(*)::int as n from inbox_items i
where user_id = %(user)s and run_id is null and status in ('pending', 'decided') and (to_jsonb(i) - 'words')::text ~* %(named)s

-- name: blottable_calls
select (select count(*) from gate_requests b where user_id = %(user)s and b::text ~* %(named)s)
     + (select count(*) from gate_ended e where user_id = %(user)s and e::text ~* %(named)s) as n

-- name: lock_session
select from gate_sessions where id = %s for no key update

-- name: own
select address from accounts where user_id = %(user)s and address ~* %(named)s order by address

-- name: background
select address from accounts where user_id = %(user)s and background ~* %(named)s order by address
