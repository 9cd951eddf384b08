-- What was asked of a model about the mails of some accounts, for `replay.py`. Tokens are those that it took then.

-- name: triage
-- What the person has corrected has the class of before that. What was sorted without a model is left out.
select 'triage' as what, r.id as run_id, r.input, m.account_id, m.gmail_id as mail_id, m.sender, m.subject,
       m.received_at as at, coalesce(c.was, m.classification) as class,
       case when m.classification <> c.was then m.classification end as corrected, null as proposed, u.prompt,
       u.completion, m.thread_id, r.created_at as began, null as letters
from mails m
cross join lateral (
    select id, input, created_at from runs where thread_id = m.thread_id and mail_id = m.gmail_id and input->>'given' is null
    order by attempt desc limit 1) as r
left join lateral (
    select was from corrections where account_id = m.account_id and mail_id = m.gmail_id order by at limit 1) as c on true
left join lateral (
    select avg(prompt_tokens)::float8 as prompt, avg(completion_tokens)::float8 as completion
    from model_usage where account_id = m.account_id and run_id = r.id and role = 'triage') as u on true
where m.user_id = %(user)s and m.account_id = any(%(accounts)s) and not m.own and m.has_text and m.classification is not null
and coalesce(m.stage, 'model') in ('model', 'person')
order by m.received_at desc, m.gmail_id desc limit %(last)s

-- name: drafts
-- The first proposal of each run; of what the person has edited and was asked about again, as it was before. Before it
-- the model had read the conversation, and what it called for itself; of those calls only their answers are kept.
select 'drafts' as what, r.id as run_id, r.input, r.account_id, m.gmail_id as mail_id, m.sender, m.subject,
       m.received_at as at, '' as class, null as corrected, first.proposed, u.prompt, u.completion, r.thread_id,
       array(select c.gmail_id from mails c where c.run_id = r.id order by c.received_at, c.gmail_id) as covered,
       (select i.decision->>'args' from inbox_items i where i.run_id = r.id and i.kind = 'notification'
        and i.decision->>'type' = 'response' limit 1) as instruction,
       (select json_agg(json_build_array(g.call_id, g.tool, g.answer) order by g.id) from gate_calls g
        where g.run_id = r.id and g.answer is not null and g.tool <> %(letters)s and g.at < asked.created_at) as read,
       r.created_at as began, (
           select answer from gate_calls where run_id = r.id and tool = %(letters)s and server is null
           order by id limit 1) as letters
from runs r join mails m on m.account_id = r.account_id and m.gmail_id = r.mail_id
cross join lateral (
    select group_id, created_at from inbox_items where run_id = r.id and interrupt_id is not null and kind <> 'notification'
    and (kind <> 'draft' or 'accept' = any(allowed))
    order by created_at, id limit 1) as asked
cross join lateral (
    select json_agg(json_build_array(
               i.action, case when i.reopened->>'args' is null then i.args else i.reopened->'args' end)
               order by i.created_at, i.id) as proposed
    from inbox_items i
    where run_id = r.id and group_id is not distinct from asked.group_id and interrupt_id is not null) as first
left join lateral (
    select avg(prompt_tokens)::float8 as prompt, avg(completion_tokens)::float8 as completion
    from model_usage where account_id = r.account_id and run_id = r.id and role = 'response') as u on true
where r.user_id = %(user)s and r.account_id = any(%(accounts)s) and m.has_text and first.proposed is not null
order by m.received_at desc, m.gmail_id desc limit %(last)s
