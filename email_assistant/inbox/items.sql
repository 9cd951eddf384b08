-- What `items.py` reads of an item `i`.

-- name: columns
i.id, i.user_id, coalesce(i.account_id, '{nil}') as account_id, coalesce(a.address, '') as account,
coalesce(i.thread_id, '{nil}') as thread_id, coalesce(i.run_id, '{nil}') as run_id, i.mail_id, t.chat_id as chat,
r.input->'undelivered'->>'says' as undelivered,
coalesce(r.input->'undelivered'->>'to', m.sender, b.agent_name) as sender,
case when r.input->'undelivered' is null then m.content->'sender'->>'name' end as sender_name,
coalesce(r.input->'undelivered'->>'subject', m.subject, r.input->>'request', b.tool) as subject, i.call_id, i.interrupt_id, i.kind, i.action,
i.args::text as args, i.mail_text, i.marks::text as kept_marks, i.doubts::text as kept_doubts,
case when not exists (select from effects e where e.account_id = i.account_id and e.state = 'done'
                      and e.recipient = i.first_answer) then i.first_answer end as first_answer,
exists (select from mails l where l.account_id = i.account_id and l.own) as knows_letters,
(select reported(d) from effects d where d.run_id = i.run_id and d.call_id = i.call_id) as told,
i.left_out, i.conflicts, i.calendars, i.asked,
i.asked_because as refusal, i.because,
coalesce(a.mode = 'shadow', false) as shadow,
case when a.mode = 'shadow' and i.kind <> 'notification'
     then array_remove(array_remove(i.allowed, 'accept'), 'edit') else i.allowed end as allowed,
case when i.status = 'pending' then i.taken_back::text end as taken_back,
case when i.status <> 'pending' then null when i.kind = 'in_doubt' then (
    select json_build_object('did', 'sent', 'text', d.result, 'args', null, 'message', null)::text from effects d
    where d.run_id = i.run_id and d.call_id = i.call_id and d.state = 'unknown' and d.result is not null) else (
    select d.found::text from left_drafts d where d.run_id = i.run_id and d.call_id = i.call_id) end as in_gmail,
case when i.status in ('superseded', 'expired') then coalesce(r.reason, e.reason)
     when i.status = 'applied' and r.state = 'superseded' then r.reason end as ended_because,
case when i.status = 'applied' and r.state = 'acting' and not exists (
    select from effects d where d.run_id = i.run_id and d.call_id = i.call_id and d.state = 'done')
    then coalesce(nullif(m.reason, m.triage_reason), r.reason, 'under way') end as held_up,
i.status = 'applied' and i.kind in ('draft', 'meeting') and i.decision->>'type' in ('accept', 'edit')
and coalesce(r.state, '') not in ('running', 'acting') and not {to_come_i} and not exists (
    select from effects d where d.run_id = i.run_id and d.call_id = i.call_id and d.state = 'done') as undone,
(select d.overwritten from effects d where d.run_id = i.run_id and d.call_id = i.call_id) as overwritten,
case when i.status in ('pending', 'decided') then array(
    select json_build_object('id', n.gmail_id, 'sender', n.sender, 'subject', n.subject,
                             'classification', n.classification, 'received_at', n.received_at)
    from mails n where n.thread_id = i.thread_id and not n.own and n.gmail_id <> m.gmail_id
    and ((n.received_at, n.gmail_id) > (m.received_at, m.gmail_id) or n.run_id = i.run_id)
    order by n.received_at desc, n.gmail_id desc limit 10) else '{}' end as newer,
coalesce(i.group_id, i.run_id::text, i.id::text) as "group", i.reopened::text as reopened, i.reopened_at, a.timezone,
case when i.status = 'applied' and i.decision->>'type' in ('accept', 'edit') and {to_come_i} then
    case when exists (select from inbox_items l where l.run_id = i.run_id and l.call_id = i.call_id
                      and l.asked > i.asked) then 'asked again' else 'to come' end end as stands,
case when i.status in ('pending', 'decided') or i.status = 'applied' and {to_come_i} then (
    select json_agg(json_build_object('id', p.id, 'kind', p.kind, 'decision', p.decision::text,
                                      'undo_until', p.undo_until, 'snoozed_until', p.snoozed_until)
                    order by p.created_at, p.id)
    from inbox_items p where p.run_id = i.run_id and p.id <> i.id and (
        p.status in ('pending', 'decided') and (i.status <> 'applied' or p.call_id <> i.call_id)
        or p.status = 'applied' and p.decision->>'type' in ('accept', 'edit') and {to_come_p} and not exists (
            select from inbox_items l where l.run_id = p.run_id and l.call_id = p.call_id and l.asked > p.asked))
) end as parts,
case when i.status = 'pending' and t.chat_id is null then array(
    select d.tool from effects d where d.run_id = i.run_id and d.call_id <> i.call_id and d.state = 'done'
    order by d.finished_at) else '{}' end as done_beside,
i.status, i.decision::text as decision, i.teachable, i.teaches, i.decided_by, i.decided_at, i.undo_until,
i.applied_at, i.superseded_by, i.snoozed_until, i.urgency, i.created_at, b.waits_until, stopped_since(i.user_id) is not null as is_stopped,
coalesce(a.state = 'paused', false) as is_paused

-- name: joined
left join accounts a on a.id = i.account_id left join runs r on r.id = i.run_id
left join threads t on t.id = i.thread_id left join mails m on m.account_id = i.account_id and m.gmail_id = i.mail_id
left join gate_requests b on b.item_id = i.id left join gate_ended e on e.call_id = b.call_id
