-- Conversations that are over for so long that their text, or all of them, is to go, for `retention.py`. Each statement
-- reads a few rows by an index: what is kept may be a million mails. Times are those at which a statement began, which
-- an index can be asked for.

-- name: before
statement_timestamp() - %(age)s::interval

-- name: at_rest
-- A part of others: nothing of conversation `t` waits or is under way, and nothing happened in it since.
t.lease_until < clock_timestamp() and t.drafted is null
and not exists (select from mails m where m.thread_id = t.id and (
    m.state <> 'done' or m.relabelled is not null or greatest(m.received_at, m.triaged_at) >= {before}))
and not exists (select from runs r where r.thread_id = t.id and (
    r.state in ('running', 'waiting', 'acting') or greatest(r.created_at, r.ended_at) >= {before}))
and not exists (select from inbox_items i where i.thread_id = t.id and (
    i.status in ('pending', 'decided') or i.status = 'applied' and i.teaches and i.learned_at is null
    or i.decided_at >= {before}))
and not exists (select from effects e where e.thread_id = t.id and e.state = 'started')
and not exists (select from left_drafts d where d.thread_id = t.id and d.state <> 'gone')
and not exists (select from corrections c join mails m on m.account_id = c.account_id and m.gmail_id = c.mail_id
                where m.thread_id = t.id and (c.learned_at is null or c.at >= {before}))
and not exists (select from lessons_to_confirm h where h.account_id = t.account_id and h.kept is null and (
    h.origin->>'mail' in (select gmail_id from mails where thread_id = t.id)
    or h.source in (select id::text from inbox_items where thread_id = t.id)))

-- name: resting
select t.id from threads t where t.id = any(%(threads)s) and {at_rest} order by t.id

-- name: accounts
select id from accounts a where {served} and state <> 'removing' order by id

-- name: old
select thread_id as id, received_at as at, gmail_id as mail from mails where account_id = %(account)s
and received_at < {before} and (received_at, gmail_id) > (%(at)s::timestamptz, %(mail)s)

-- name: text
{old} and has_text order by received_at, gmail_id limit %(most)s

-- name: trail
{old} order by received_at, gmail_id limit %(most)s

-- name: chats
-- One that was begun, and in which nothing was asked yet, is about to be.
select t.id from threads t where t.account_id = %(account)s and t.gmail_id is null and t.id > %(after)s
and exists (select from runs r where r.thread_id = t.id) and {at_rest} order by t.id limit %(most)s

-- name: taught
-- By what rules name the mail that they came of.
select gmail_id as id from mails where thread_id = any(%(threads)s)
union all select id::text from inbox_items where thread_id = any(%(threads)s)

-- name: read_before
-- Not by when it came: a rehearsal that is under way would lose what it has just read.
select gmail_id from past_mails where account_id = %(account)s and read_at < {before} order by read_at limit %(most)s

-- name: past
select gmail_id from past_mails where account_id = %(account)s
and thread_id in (select gmail_id from threads where id = any(%(threads)s))
