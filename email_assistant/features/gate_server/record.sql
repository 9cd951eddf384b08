-- name: sessions
select s.id, s.name, s.created_at as began, b.calls, b.last, b.waiting, b.agent
from gate_sessions s cross join lateral (
    select count(*)::int as calls, max(r.at) as last, count(*) filter (where i.status = 'pending')::int as waiting,
           (array_agg(r.agent_name order by r.id desc) filter (where r.agent_name is not null))[1] as agent
    from gate_requests r left join inbox_items i on i.id = r.item_id where r.session_id = s.id) b
where s.user_id = %(user)s and (%(name)s::text is null or s.name = %(name)s)
  and (%(before)s::bigint is null or s.id < %(before)s)
order by s.id desc limit %(most)s

-- name: ran
-- Each kind of call once.
select distinct c.session_id, c.tool, c.server, c.labels, c.external, c.cleared from gate_calls c
where c.session_id = any(%(sessions)s)

-- name: calls
select r.id, r.call_id, r.tool, r.at, r.arguments, r.verdict, r.reason, r.labels, r.item_id, i.status as item_status,
       i.decided_by, i.decided_at, c.id is not null as ran, e.status, e.reason as because, e.duration_ms
from gate_requests r left join inbox_items i on i.id = r.item_id
left join gate_calls c on c.session_id = r.session_id and c.call_id = r.call_id
left join gate_ended e on e.call_id = r.call_id
where r.session_id = %(session)s and (%(before)s::bigint is null or r.id < %(before)s)
order by r.id desc limit %(most)s
