-- What answers teach, for `teaching.py`.

-- name: unlearned
select distinct i.account_id from inbox_items i join accounts a on a.id = i.account_id
where i.status = 'applied' and i.teaches and i.learned_at is null
and i.learn_after <= clock_timestamp() and a.provider = %s and a.state = 'active'

-- name: taught
select coalesce((m.content->>'bulk')::boolean, false) as bulk,
       coalesce((m.content->>'auto_submitted')::boolean, false) as automatic,
       exists (select from inbox_items p where p.run_id = i.run_id and p.id <> i.id
               and p.kind <> 'notification' and p.status = 'applied'
               and p.decision->>'type' = any(%s)) as beside_accepted,
       array(select concat_ws(E'\n', c.content->'sender'->>'name', c.subject, c.content->>'text')
             from mails c where c.thread_id = i.thread_id
             -- What came of the answer holds the person's own words.
             and not (c.own and c.received_at >= i.created_at)) as mails,
       array(select g.answer from gate_calls g where g.thread_id = i.thread_id and g.answer is not null
             and g.tool <> '{own_letters}' and (g.run_id, g.call_id) <> (i.run_id, i.call_id)) as told
from inbox_items i left join mails m on m.account_id = i.account_id and m.gmail_id = i.mail_id
where i.id = %s
