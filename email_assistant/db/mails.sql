-- All that changes `mails`; `mails.py` says what each statement is for.

-- name: insert
-- The content goes as binary: as text each quotation mark and backslash in the array would be looked for on the way.
insert into mails (account_id, gmail_id, user_id, thread_id, own, sender, subject, content, readable, received_at,
                   state, reason)
select %(account)s, n.gmail_id, %(user)s, n.thread_id, n.own, n.sender, n.subject, n.content, n.readable, n.received_at,
       case when n.own and exists (select from effects e where e.account_id = %(account)s and e.state = 'done'
                                   and e.thread_id = n.thread_id and e.external_id = n.gmail_id)
            then 'done' else n.state end, n.reason
from unnest(%(gmail_id)s::text[], %(thread_id)s::uuid[], %(own)s::boolean[], %(sender)s::text[], %(subject)s::text[],
            %(content)b::jsonb[], %(readable)s::boolean[], %(received_at)s::timestamptz[], %(state)s::text[],
            %(reason)s::text[])
     as n (gmail_id, thread_id, own, sender, subject, content, readable, received_at, state, reason)
where not exists (select from forgotten f where f.account_id = %(account)s and f.gmail_id = n.gmail_id)
order by n.gmail_id collate "C"
on conflict do nothing returning thread_id, state

-- name: given
update mails set own = %(own)s, sender = %(sender)s, subject = %(subject)s, content = %(content)s,
       readable = %(readable)s, received_at = %(received_at)s, state = %(state)s, reason = %(reason)s, tries = 0
where account_id = %(account_id)s and gmail_id = %(gmail_id)s and not readable
returning thread_id

-- name: asked_again
update mails set tries = tries + 1 where account_id = %(account)s and gmail_id = any(%(mails)s) and not readable

-- name: never_given
update mails set state = 'done', reason = %(why)s
where account_id = %(account)s and gmail_id = any(%(mails)s) and not readable

-- name: moved_in
-- A run's mails are reopened with it.
update mails m set state = case when classification is null then 'new' else 'triaging' end,
       reason = 'moved into the inbox', has_text = true
where m.account_id = %(account)s and m.gmail_id = any(%(mails)s) and m.state = 'done' and not m.own
and (m.classification is null and m.reason = %(was_out)s or m.reason = m.put_away)
and not exists (select from runs r where r.id = m.run_id and r.state = 'superseded')
and not exists (select from mails a where a.thread_id = m.thread_id and a.own and a.received_at >= m.received_at)
returning m.thread_id

-- name: moved
update mails m set put_away = n.why from unnest(%(mails)s::text[], %(whys)s::text[]) as n (gmail_id, why)
where m.account_id = %(account)s and m.gmail_id = n.gmail_id and not m.own and m.put_away is distinct from n.why
returning m.thread_id

-- name: relabelled
-- Where we are about to set a label, or have set this one, it is our own; else it is to be looked at.
update mails m set relabelled = n.class from unnest(%(mails)s::text[], %(classes)s::text[]) as n (gmail_id, class)
where m.account_id = %(account)s and m.gmail_id = n.gmail_id and m.labelled <> 'none' and m.labelled <> n.class
returning m.thread_id

-- name: labelled
update mails set labelled = %s, relabelled = null where thread_id = %s and gmail_id = %s and {held} returning gmail_id

-- name: not_relabelled
update mails set relabelled = null
where account_id = %(account)s and gmail_id = %(mail)s and relabelled = %(classification)s

-- name: retry
update mails m set tries = 0, reason = 'tried again', put_away = null,
       state = case when classification in ('notify', 'respond') then 'triaging' else 'new' end
from accounts a where a.id = m.account_id and a.address = %(address)s and m.user_id = %(user)s
and m.gmail_id = %(mail)s and m.state = 'failed' and m.readable
returning m.thread_id

-- name: correct
update mails set classification = %(classification)s, triage_reason = %(why)s, reason = %(why)s, tries = 0,
       state = case %(classification)s when 'ignore' then 'done' else 'triaging' end,
       triaged_at = statement_timestamp(), labelled = null, relabelled = null, put_away = null,
       stage = 'person', has_text = true
where account_id = %(account)s and gmail_id = %(mail)s

-- name: redact_text
-- Mail that is worked on anew is looked at anew, as its conversation may hold text again.
update mails set has_text = false, content = content || jsonb_build_object('text', '', 'body', '', 'note', case
       when position(%(note)s in content->>'note') > 0 then content->>'note'
       else concat_ws('; ', nullif(content->>'note', ''), %(note)s::text) end)
where thread_id = any(%(threads)s) and has_text

-- name: wait_no_more
update mails m set run_id = null from runs r
where m.account_id = %(account)s and m.gmail_id = %(mail)s
and r.id = m.run_id and r.state = 'waiting' and r.mail_id <> m.gmail_id

-- name: others_again
update mails set state = 'triaging' where run_id = %(run)s and state = 'waiting' and gmail_id <> %(mail)s

-- name: taken_up
update mails set tries = tries + 1,
       run_id = case when state = 'waiting' then run_id else %s end,
       reason = case when state = 'waiting' then reason else coalesce(triage_reason, 'being read') end,
       state = case when state = 'waiting' then state else 'triaging' end
where thread_id = %s and gmail_id = %s and {held} returning tries, clock_timestamp() as at

-- name: tried
update mails set tries = tries + 1 where thread_id = %s and gmail_id = %s and {held} returning tries

-- name: not_tried
update mails set tries = greatest(0, tries - 1) where thread_id = %(thread)s and gmail_id = %(mail)s

-- name: held_up
update mails set reason = %(why)s where thread_id = %(thread)s and state in ('new', 'triaging', 'acting')

-- name: acting
update mails set state = 'acting', tries = tries + (gmail_id = %s)::int where run_id = %s and {held}
returning gmail_id, tries

-- name: hang
update mails set tries = 0, state = 'waiting', reason = %s where run_id = %s and {held} returning gmail_id

-- name: rested
update mails m set tries = 0, reason = coalesce(m.triage_reason, m.reason), state = case
    when %s = 'waiting' then 'waiting'
    when m.classification <> 'ignore' and (r.input->>'triage_only')::boolean then 'triaging'
    when {untold} or {unreached} then 'triaging' else 'done' end
from runs r where r.id = m.run_id and r.id = %s and {held} returning m.gmail_id

-- name: failed
update mails m set tries = 0, state = case when {untold} then 'triaging' else 'failed' end,
       reason = case when {untold} then coalesce(m.triage_reason, m.reason)
                     when %(after)s then concat_ws(': ', %(why)s::text, regexp_replace(m.reason, '^waiting: ', ''))
                     else %(why)s::text end
from runs r where r.id = %(run)s and m.account_id = r.account_id and (m.run_id = r.id or m.gmail_id = r.mail_id)

-- name: all_failed
update mails set state = 'failed', tries = 0, reason = %(why)s
where thread_id = %(thread)s and not own and state in ('new', 'triaging', 'waiting', 'acting')

-- name: triaged
update mails set classification = now.class,
       triage_reason = coalesce(nullif(now.why, ''), triage_reason),
       triaged_at = case when now.why = '' and triaged_at is not null then triaged_at else clock_timestamp() end,
       labelled = case when classification = now.class then labelled end,
       relabelled = case when classification = now.class then relabelled end,
       reason = coalesce(nullif(now.why, ''), triage_reason, reason), stage = coalesce(now.by, stage)
from (values (%s::text, %s::text, %s::text)) as now (class, why, by)
where thread_id = %s and gmail_id = %s and {held}
returning gmail_id

-- name: cover
with now as (
    update mails set run_id = %(run)s, state = 'triaging' where thread_id = %(thread)s and not own
    and (state = 'triaging' and classification in ('notify', 'respond')
         or state = 'waiting'
            and exists (select from runs r where r.id = mails.run_id and r.superseded_by = %(run)s))
    returning gmail_id, received_at, classification)
select gmail_id, first_value(gmail_id) over (
    order by classification = 'respond' desc, received_at desc, gmail_id desc) as foremost
from (select * from now union select gmail_id, received_at, classification from mails where run_id = %(run)s) as its
order by received_at, gmail_id

-- name: cover_alone
update mails set run_id = %s, state = 'triaging' where thread_id = %s and not own and state = 'triaging'
and classification in ('notify', 'respond') and {held}
returning gmail_id, received_at, classification

-- name: leave
update mails set run_id = null, tries = 0 where run_id = %(run)s and state = 'triaging'

-- name: put_beside
update mails m set run_id = r.id, state = 'waiting', tries = 0 from runs r
where r.thread_id = %(thread)s and r.state = 'waiting' and m.thread_id = r.thread_id and m.state = 'triaging'
and {beside}
and not exists (select from runs o where o.id = m.run_id and o.state in ('running', 'waiting', 'acting'))

-- name: closed
update mails m set state = case when left_over then 'triaging' else 'done' end,
       reason = case when left_over then coalesce(m.triage_reason, m.reason) else %(why)s end
from (select m.account_id, m.gmail_id, {untold} or (m.received_at > %(upto)s) is true as left_over
      from mails m join runs r on r.id = m.run_id where r.id = any(%(runs)s)) as theirs
where m.account_id = theirs.account_id and m.gmail_id = theirs.gmail_id

-- name: wait_again
update mails m set run_id = %(run)s, state = 'waiting', tries = 0,
       reason = coalesce(m.triage_reason, 'moved back into the inbox')
from runs r where r.id = m.run_id and not m.own
and (r.id = any(%(beside)s)
     or r.thread_id = m.thread_id and r.closed_with = m.gmail_id and r.id <> %(run)s
     and m.put_away is null and m.state = 'done' and m.classification = 'notify')
and r.thread_id = (select thread_id from runs where id = %(run)s)

-- name: reopened
update mails set state = %(state)s, tries = 0, reason = coalesce(triage_reason, 'moved back into the inbox')
where run_id = %(run)s and state = 'done' and not own and put_away is null

-- name: put_away
update mails m set state = 'done', reason = put_away where thread_id = %(thread)s and not own
and state in ('new', 'triaging') and put_away is not null
and not exists (select from runs r where r.id = m.run_id and r.state in ('running', 'waiting', 'acting'))

-- name: own_read
update mails set state = 'done' where thread_id = %(thread)s and own and state = 'new'

-- name: answered
update mails set state = 'done', reason = %(why)s, triage_reason = %(why)s
where thread_id = %(thread)s and not own and state in ('new', 'triaging') and received_at <= %(wrote_at)s
and not exists (select from runs r where r.id = run_id and r.state in ('waiting', 'acting'))
