-- What the gate judges a call by, for `evidence.py`.

-- name: of_run
select t.id as thread_id, t.chat_id is not null as is_chat,
       array(select r.input->>'request' from runs r where r.thread_id = t.id and r.mail_id is null
             order by r.attempt) as requests,
       coalesce((select json_agg(json_build_object('args', i.args::text, 'decision', i.decision::text)
                                 order by i.decided_at, i.id)
                 from inbox_items i where i.thread_id = t.id and i.decision->>'type' in ('response', 'edit')),
                '[]') as said,
       coalesce((select json_agg(json_build_object('args', e.args::text, 'at', e.finished_at) order by e.finished_at)
                 from effects e where e.thread_id = t.id and e.state = 'done'
                 and exists (select from inbox_items i where i.run_id = e.run_id and i.call_id = e.call_id
                             and i.status = 'applied')), '[]') as done,
       coalesce((select json_agg(json_build_object(
                     'tool', g.tool, 'server', g.server, 'labels', g.labels, 'external', g.external,
                     'cleared', g.cleared, 'at', g.at,
                     'answer', case when g.place <= %(answers)s then g.answer end) order by g.id)
                 from (select *, row_number() over (order by id desc) as place
                       from gate_calls where thread_id = t.id) as g), '[]') as calls
from runs of join threads t on t.id = of.thread_id where of.id = %(run)s

-- name: around
-- The conversation of a mail that a call names.
select m.gmail_id, m.own, m.content from mails m
where m.account_id = %s and m.readable and m.thread_id in (
    select thread_id from mails where account_id = %s and gmail_id = any(%s))
order by m.received_at, m.gmail_id

-- name: sent
-- What the person wrote last, to anybody.
select gmail_id, own, content from mails
where account_id = %s and own and readable
order by received_at desc limit %s

-- name: found
-- Mails that were looked up.
select gmail_id, own, content from mails where account_id = %s and gmail_id = any(%s) and readable
