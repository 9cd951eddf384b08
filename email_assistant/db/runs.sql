-- All that changes `runs`; `runs.py` says what each statement is for.

-- name: insert
insert into runs (id, user_id, account_id, thread_id, mail_id, attempt, input, state, tries)
select %s, %s, %s, %s, %s, %s, %s, 'running', %s where {held} returning created_at

-- name: tried
update runs set tries = tries + 1 where id = %s and {held} returning tries

-- name: not_tried
update runs set tries = greatest(0, tries - 1) where id = %(run)s

-- name: held_up
update runs set reason = %(why)s where id = %(run)s

-- name: acting
update runs set state = 'acting', reason = null, tries = %s where id = %s and {held}

-- name: rested
-- What triage was shown of a mail stands there, and is made anew where it is asked about once more.
update runs set state = %s, answer = %s, pruned = %s, reason = null, tries = 0, input = input - 'text' where id = %s and {held}

-- name: failed
update runs set state = 'failed',
       reason = case when %(after)s then concat_ws(': ', %(why)s::text, regexp_replace(reason, '^waiting: ', ''))
                     else %(why)s::text end
where id = %(run)s

-- name: supersede
update runs set state = 'superseded', superseded_by = %(by)s, reason = %(why)s where id = any(%(runs)s)

-- name: closed_with
update runs set closed_with = %(mail)s where id = %(run)s

-- name: reopen
update runs set state = 'waiting', reason = null, ended_at = null, pruned = false where id = %(run)s

-- name: never_reopen
update runs r set closed_with = null from mails m
where r.thread_id = %(thread)s and m.put_away is null and m.account_id = r.account_id and m.gmail_id = r.closed_with

-- name: not_closed_with
update runs set closed_with = null where account_id = %(account)s and closed_with = %(mail)s

-- name: redact_text
-- Nothing is left from which one could be open again.
update runs set input = (input - 'text') #- '{undelivered,shown}' #- '{undelivered,args}', closed_with = null, pruned = true
where id in (select id from runs where thread_id = any(%(threads)s) order by id for no key update) returning id

-- name: pruned
update runs set pruned = true where id in (select id from runs where id = any(%(runs)s) order by id for no key update)
