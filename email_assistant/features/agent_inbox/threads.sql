-- All SQL on `agent_inbox_served` and `agent_inbox_approvals`; `threads.py` says what each statement is for.

-- name: served
select item_id from agent_inbox_served where user_id = %s and run_id = %s order by client = %s desc, at desc limit 1

-- name: approved
select item_id, taken from agent_inbox_approvals where user_id = %s and run_id = %s and words = %s

-- name: approves
insert into agent_inbox_approvals (user_id, run_id, words, item_id) values (%s, %s, %s, %s)
on conflict (run_id, words) do update set item_id = agent_inbox_approvals.item_id
returning item_id

-- name: was_taken
update agent_inbox_approvals set taken = true where user_id = %s and run_id = %s and words = %s

-- name: serve
-- In the order of their key, so that two lists at once can't wait for each other.
insert into agent_inbox_served as s (user_id, run_id, client, item_id)
select user_id, run_id, %s, id from inbox_items where user_id = %s and id = any(%s)
order by run_id for key share
on conflict (run_id, client) do update set item_id = excluded.item_id, at = clock_timestamp()
where s.item_id <> excluded.item_id

-- name: of_found
select r.id, r.created_at, r.state, r.reason, greatest(r.created_at, items.changed_at) as updated_at
from found join runs r on r.id = found.id
left join lateral (select max(greatest(i.created_at, i.decided_at, i.applied_at)) as changed_at
                   from inbox_items i where i.run_id = r.id) items on true

-- name: interrupted
-- By the items' index: what waits may be few among very many runs. A call of somebody else's agent has none.
select i.run_id as id, i.created_at as position from inbox_items i
where i.user_id = %s and i.status = 'pending' and i.run_id is not null
and not exists (select from inbox_items o where o.run_id = i.run_id and o.status = 'pending'
                and (o.created_at, o.id) < (i.created_at, i.id))
order by i.created_at desc, i.id desc
