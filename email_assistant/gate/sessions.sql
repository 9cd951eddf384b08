-- Calls of other people's agents, for `sessions.py`.

-- name: enter
insert into gate_sessions (user_id, name) values (%s, %s) on conflict do nothing

-- name: lock
select id, name, requests, stopped_since(user_id) is not null as stopped
from gate_sessions where user_id = %s and name = %s for no key update

-- name: say
update gate_sessions set requests = array_append(requests, %(request)s)
where user_id = %(user)s and name = %(name)s and not %(request)s = any(requests)

-- name: ran_since
-- Each kind once.
select max(c.id) as id, c.tool, c.server, c.labels, c.external, c.cleared
from gate_calls c join gate_sessions s on s.id = c.session_id
where s.user_id = %s and s.name = %s and c.id > %s group by 2, 3, 4, 5, 6 order by 1

-- name: told_since
-- Of tools that touch the same, the newest.
select * from (
    select e.id, e.status, e.result, e.at, b.tool, b.labels, b.external, b.cleared, null as server,
           row_number() over (partition by b.labels, e.status order by e.id desc) as newest
    from gate_sessions s join gate_ended e on e.session_id = s.id join gate_requests b on b.call_id = e.call_id
    where s.user_id = %s and s.name = %s and e.id > %s and e.result is not null) told
where newest <= %s order by id

-- name: begin
insert into gate_requests (user_id, session_id, call_id, tool, arguments, agent_name, agent_type, verdict, reason,
                           labels, external, cleared, item_id, waits_until, holder)
values ((select user_id from gate_sessions where id = %(session)s), %(session)s, %(call)s, %(tool)s, %(arguments)s,
        %(agent_name)s, %(agent_type)s, %(verdict)s, %(reason)s, %(labels)s, %(external)s,
        %(cleared)s, %(item)s, clock_timestamp() + %(timeout)s, %(holder)s)

-- name: block
insert into gate_ended (user_id, session_id, call_id, status, reason)
select user_id, session_id, call_id, 'blocked', %(reason)s from gate_requests
where call_id = %(call)s or item_id = %(item)s
on conflict do nothing

-- name: find
select b.call_id, exists (select from gate_calls c where c.session_id = b.session_id and c.call_id = b.call_id) as runs
from gate_requests b where b.session_id = %s and b.call_id = %s

-- name: end
insert into gate_ended (user_id, session_id, call_id, status, duration_ms, result)
select user_id, id, %(call)s, %(status)s, %(took)s, %(result)s from gate_sessions where id = %(session)s
on conflict do nothing

-- name: waiting
select b.item_id, b.call_id, b.tool, i.status from gate_requests b join gate_sessions s on s.id = b.session_id
join inbox_items i on i.id = b.item_id
where s.user_id = %(user)s and s.name = %(name)s and (
    b.call_id = %(call)s or (%(call)s::text is null and b.tool = %(tool)s and i.status = 'pending'))
order by b.id limit 1

-- name: sessions
select id, name, created_at from gate_sessions where user_id = %s order by id

-- name: calls
select s.name, b.call_id, b.tool, b.arguments, b.agent_name, b.agent_type, b.at, b.reason, e.result, e.duration_ms,
       coalesce(e.status, 'pending') as status, e.reason as because
from gate_requests b join gate_sessions s on s.id = b.session_id left join gate_ended e on e.call_id = b.call_id
where s.user_id = %s order by b.id

-- name: own
-- Of the mail agent and of chats, by conversation.
select t.id::text as name, coalesce(t.chat_id, t.gmail_id) as known_as,
       case when t.chat_id is null then 'mail' else 'chat' end as agent_type,
       c.call_id, c.tool, c.server, c.at, c.labels, c.external, c.cleared, c.answer
from gate_calls c join threads t on t.id = c.thread_id where c.user_id = %s order by t.id, c.id

-- name: ran
select s.name, c.tool, c.server, c.labels, c.external, c.cleared
from gate_calls c join gate_sessions s on s.id = c.session_id where s.user_id = %s
group by 1, 2, 3, 4, 5, 6

-- name: naming
select s.id from gate_sessions s where s.user_id = %(user)s and (
    array_to_string(s.requests, ' ') ~* %(named)s
    or exists (select from gate_requests b where b.session_id = s.id and b::text ~* %(named)s)
    or exists (select from gate_ended e where e.session_id = s.id and e::text ~* %(named)s)
    or exists (select from gate_requests b join inbox_items i on i.id = b.item_id
               where b.session_id = s.id and (to_jsonb(i) - 'words')::text ~* %(named)s)) order by s.id

-- name: blot_requests
update gate_sessions set requests = array(select each from unnest(requests) as each where each !~* %(named)s)
where id = %(session)s

-- name: blot_begun
update gate_requests b set arguments = null, agent_name = null, reason = 'forgotten'
where session_id = %(session)s and b::text ~* %(named)s returning id

-- name: blot_ended
update gate_ended e set result = null, reason = null where session_id = %(session)s and e::text ~* %(named)s returning id
