-- All that changes `inbox_items`; `rows.py` says what each statement is for.

-- name: insert
insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, words, {columns})
select user_id, account_id, thread_id, id, mail_id, %s, {words}, {values}
from runs where id = %s and {held}
on conflict do nothing

-- name: insert_refused
insert into inbox_items (user_id, account_id, thread_id, run_id, mail_id, mail_text, call_id, kind, action, args,
                         allowed, marks, doubts, first_answer, left_out, conflicts, calendars, teaches, because,
                         words, asked, asked_because, group_id)
select user_id, account_id, thread_id, run_id, mail_id, %s, call_id, kind, action, %s,
       case when 'accept' = any(allowed) then array_remove(allowed, 'response') else '{accept,edit,ignore}' end, marks, doubts, first_answer, left_out, %s, %s, false,
       case when %s then because end, {words},
       (select 1 + max(o.asked) from inbox_items o where o.run_id = i.run_id and o.call_id = i.call_id), %s, group_id
from inbox_items i where run_id = %s and call_id = %s and interrupt_id is not null
on conflict do nothing

-- name: hold
insert into inbox_items (id, user_id, mail_text, call_id, kind, action, args, allowed, marks, doubts, teaches,
                         because, words)
values (%s, %s, %s, %s, 'confirmation', %s, %s, '{accept,ignore}', '[]', %s, false, %s, {words})

-- name: release
update inbox_items i set status = 'applied', decision = %s, decided_by = %s, decided_at = statement_timestamp(),
       applied_at = clock_timestamp(), learned_at = clock_timestamp()
where i.id = %s and i.user_id = %s and i.status = 'pending'
and exists (select from gate_requests b where b.item_id = i.id and gate_waits(b))

-- name: expire_held_call
update inbox_items set status = 'expired' where id = %s and run_id is null and status = 'pending'

-- name: times_asked
select coalesce(max(asked), 0) as n from inbox_items where run_id = %s and call_id = %s

-- name: decide
update inbox_items i set status = 'decided', decision = %s, decided_by = %s, decided_at = statement_timestamp(),
       undo_until = statement_timestamp() + %s, teaches = i.teachable and %s,
       typed = array(select distinct unnest(i.typed || %s::text[])),
       args = case when i.reopened->>'args' is null then i.args else i.reopened->'args' end,
       reopened = null, reopened_at = null, taken_back = null
from accounts a
where i.id = %s and i.user_id = %s and i.status = 'pending' and i.asked = %s
and a.id = i.account_id and a.state <> 'removing'
returning i.undo_until

-- name: is_moved
decision->>'type' = 'edit' and (decision->'args'->>'start_time', decision->'args'->>'end_time')
                                is distinct from (args->>'start_time', args->>'end_time')

-- name: ask_once_more
-- What stood at a time that is not meant any more says nothing.
update inbox_items set status = 'pending', decision = null, decided_by = null, decided_at = null, undo_until = null,
       asked = asked + 1, reopened_at = statement_timestamp(),
       reopened = json_build_object('because', %s::text, 'item', %s::uuid, 'decision', decision,
                                    'decided_by', decided_by, 'decided_at', decided_at, 'undo_until', undo_until,
                                    'args', case decision->>'type' when 'edit' then args end),
       conflicts = case when {is_moved} then '{}' else conflicts end,
       calendars = case when {is_moved} then '{}' else calendars end,
       args = case decision->>'type' when 'edit' then decision->'args' else args end
where id = %s and status = 'decided' and interrupt_id is not null
and decision->>'type' in ('accept', 'edit') and not id = any(%s)

-- name: open_of_call
-- Locked, so that none is answered meanwhile.
select id, status from inbox_items
where run_id = %s and call_id = %s and status in ('pending', 'decided') and interrupt_id is not null
order by id for no key update

-- name: count_up
update inbox_items set asked = asked + 1 where id = %s and 'pending' = %s

-- name: undo
-- What the person had typed is kept.
update inbox_items i set status = 'pending', teaches = teachable, decision = null, decided_by = null, decided_at = null, undo_until = null,
       taken_back = case when decision->>'type' in ('edit', 'response') then decision end
where id = %s and user_id = %s and status = 'decided' and (
    undo_until > clock_timestamp() or stopped_since(user_id) is not null
    or exists (select from accounts where id = i.account_id and state = 'paused')
    or exists (select from inbox_items p where p.run_id = i.run_id and p.status = 'pending'))

-- name: restore
update inbox_items set status = 'decided', decision = reopened->'decision', decided_by = reopened->>'decided_by',
       decided_at = (reopened->>'decided_at')::timestamptz, undo_until = (reopened->>'undo_until')::timestamptz,
       args = case when reopened->>'args' is null then args else reopened->'args' end,
       reopened = null, reopened_at = null
where run_id = (select run_id from inbox_items where id = %s) and status = 'pending' and reopened->>'item' = %s

-- name: take_back
update inbox_items set status = 'pending', teaches = teachable, decision = null, decided_by = null, decided_at = null, undo_until = null,
       taken_back = case when decision->>'type' in ('edit', 'response') then decision end, asked_because = %s
where id in (select id from inbox_items where account_id = %s and status = 'decided' and kind <> 'notification'
             and decision->>'type' in ('accept', 'edit') order by id for no key update)

-- name: forget_restorable
-- What was accepted before does not come back when the answer is taken back that made it be asked again.
update inbox_items set reopened = jsonb_set(reopened::jsonb, '{item}', 'null')::json
where account_id = %s and status = 'pending' and json_typeof(reopened) = 'object'

-- name: snooze
update inbox_items set snoozed_until = %s where id = %s and user_id = %s and status = 'pending'

-- name: apply
-- Whoever answers, or takes an answer back, has locked the conversation or its account, as the caller has.
update inbox_items set status = 'applied', applied_at = clock_timestamp(),
       learned_at = case when decision->>'type' = 'accept' then clock_timestamp() end
where id in (select id from inbox_items where run_id = %(run)s and status = 'decided' order by id for no key update)
and status = 'decided'
and (select bool_and(status = 'decided' and undo_until <= clock_timestamp())
     from inbox_items where run_id = %(run)s and status in ('pending', 'decided'))
returning id

-- name: supersede
update inbox_items set status = 'superseded', superseded_by = %s
where id in (select id from inbox_items where run_id = any(%s) and status in ('pending', 'decided')
             order by id for no key update)

-- name: reopen
update inbox_items set status = 'pending', ended_at = null, snoozed_until = clock_timestamp()
where run_id = %s and status = 'superseded' and superseded_by is null and decision is null
and interrupt_id is not null

-- name: expire
update inbox_items set status = 'expired'
where id in (select id from inbox_items where run_id = %s and status in ('pending', 'decided')
             order by id for no key update)

-- name: learned
update inbox_items set learned_at = clock_timestamp() where id = %s

-- name: learn_later
update inbox_items set learn_after = clock_timestamp() + back_off(learn_tries, '1 second', '5 minutes'),
       learned_at = case when learn_tries >= %s then clock_timestamp() end
where id = %s
returning learned_at is not null as given_up

-- name: blot_calls
-- Other agents' calls alone; of what waits nothing is blotted out.
update inbox_items i
set args = '{}', mail_text = '', marks = '[]', typed = '{}', conflicts = '{}', because = null,
    asked_because = null, taken_back = null, doubts = '[]', words = '',
    decision = case when decision is not null then json_build_object('type', decision->>'type', 'args', null) end
where user_id = %s and run_id is null and status not in ('pending', 'decided') and (to_jsonb(i) - 'words')::text ~* %s returning id

-- name: redact_text
-- Its first line stays, which is sender and subject, and the answer; an item that waits is left alone.
update inbox_items i
set mail_text = concat(split_part(mail_text, E'\n', 1), E'\n\n', %(note)s::text), args = without_text(args, %(instead)s),
    decision = case when decision is not null then json_build_object(
        'type', decision->>'type', 'args', without_text(decision->'args', %(instead)s)) end,
    taken_back = null, reopened = null, conflicts = '{}', doubts = '[]', asked_because = null,
    words = to_tsvector('simple', concat_ws(' ', split_part(mail_text, E'\n', 1), (
        select sender from mails m where m.account_id = i.account_id and m.gmail_id = i.mail_id)))
where thread_id = any(%(threads)s) and status not in ('pending', 'decided')
