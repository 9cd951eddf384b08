-- What the story of one mail is told from; `story.py` tells it.

-- name: mail
select m.account_id, m.thread_id, m.gmail_id, m.run_id, m.sender, m.received_at, m.state, m.classification,
       m.triage_reason, m.triaged_at, m.stage, m.labelled, m.relabelled, m.content->>'note' as note
from mails m join accounts a on a.id = m.account_id
where m.user_id = %s and m.gmail_id = %s and a.address = coalesce(%s, a.address)

-- name: corrections
select id, at, by, classification, was, because, triaged_at from corrections where account_id = %s and mail_id = %s
order by at

-- name: runs
-- The mail's own runs, the one that answers it now, and those that took the place of any of them.
with recursive its as (
    select id, superseded_by from runs where user_id = %(user)s and thread_id = %(thread)s
    and (mail_id = %(mail)s or id = %(run)s)
    union select r.id, r.superseded_by from runs r join its on r.id = its.superseded_by)
select r.id, r.mail_id, r.attempt, r.state, r.reason, r.created_at, r.ended_at, r.superseded_by,
       r.input->>'given' as given, u.calls, u.tokens, u.cost
from its join runs r on r.id = its.id cross join lateral (
    select count(*) as calls, coalesce(sum(prompt_tokens + completion_tokens), 0)::int as tokens,
           coalesce(sum(cost), 0)::float8 as cost
    from model_usage where account_id = r.account_id and run_id = r.id) as u
order by r.created_at

-- name: items
select id, run_id, kind, action, because, asked_because, args::text, status, decision::text, decided_by, decided_at,
       applied_at, teaches, superseded_by, ended_at, created_at,
       (select r.input->'undelivered' is not null from runs r where r.id = inbox_items.run_id) as is_again
from inbox_items where run_id = any(%s) order by created_at, id

-- name: effects
select run_id, tool, place, state, external_id, result, looks, started_at, finished_at, overwritten,
       reported(effects) as told
from effects where run_id = any(%s)
order by coalesce(finished_at, started_at), call_id

-- name: effects_for
select e.run_id, e.tool, e.place, e.state, e.external_id, e.result, e.looks, e.started_at, e.finished_at,
       e.overwritten, reported(e) as told
from mails m join accounts a on a.id = m.account_id join effects e on e.run_id = m.run_id
where m.user_id = %s and m.gmail_id = %s and a.address = %s and e.state <> 'planned'
order by coalesce(e.finished_at, e.started_at), e.call_id

-- name: find
-- By an id of its own, Gmail's, that of an item or a run, or the beginning of one of these three.
with named as (
    select m.account_id, m.gmail_id, m.gmail_id = %(named)s or m.content->>'message_id' is not null
           and btrim(m.content->>'message_id', '<> ') = btrim(%(named)s, '<> ') as is_exact
    from mails m where m.user_id = %(user)s and (
        starts_with(m.gmail_id, %(named)s) or btrim(m.content->>'message_id', '<> ') = btrim(%(named)s, '<> '))
    union select account_id, mail_id, false from inbox_items
    where user_id = %(user)s and mail_id is not null and starts_with(id::text, lower(%(named)s))
    union select account_id, mail_id, false from runs
    where user_id = %(user)s and mail_id is not null and starts_with(id::text, lower(%(named)s)))
select n.gmail_id as id, a.address as account, bool_or(n.is_exact) as is_exact
from named n join accounts a on a.id = n.account_id where a.address = coalesce(%(account)s, a.address)
group by 1, 2 order by 3 desc, 1 limit 3

-- name: judged
select thought, confidence, decided, checked, truth, known_by, made_at from judgements
where account_id = %s and mail_id = %s and thought is not null

-- name: fired
select profile, rule, version, at from rule_fires where account_id = %s and mail_id = %s order by at, rule

-- name: calls
select c.run_id, c.tool, c.server, c.at from gate_calls c where c.run_id = any(%s)
and not exists (select from effects e where e.run_id = c.run_id and e.call_id = c.call_id) order by c.id

-- name: drafts
select run_id, state, draft_id, last_started_at, found->>'did' as did from left_drafts where run_id = any(%s) order by run_id, call_id

-- name: held
select at, kept, change->>'text' as text from lessons_to_confirm
where account_id = %s and (origin->>'mail' = any(%s) or source = any(%s)) order by at

-- name: usage
select model, role, count(*) as calls, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
       sum(cost)::float8 as cost
from model_usage where account_id = %s and run_id = any(%s) group by 1, 2 order by 1, 2
