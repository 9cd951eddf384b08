-- All SQL on `channels`; `channels.py` says what each statement is for. The first four, and `to_be_told`, are parts of others: `untold` is
-- of an item i and a channel c, and written so that the indexes of the times serve it; `since` is when an item began to
-- wait: when it came, is shown again, or is asked about again; `logged_in` is whether the browser that asked for a
-- channel c is still logged in, if it had to be.

-- name: columns
id, user_id, kind, name, state, told_at, tries, last_error, created_at

-- name: since
greatest(i.created_at, i.snoozed_until, i.reopened_at)

-- name: untold
(i.created_at > c.told_until or i.snoozed_until > c.told_until or i.reopened_at > c.told_until)
and greatest(i.created_at, i.snoozed_until, i.reopened_at) <= clock_timestamp() - %s

-- name: logged_in
(c.session_id is null or exists (select from sessions s where s.id = c.session_id
                                 and s.expires_at > clock_timestamp()))

-- name: add
insert into channels (user_id, kind, name, address_hash, address, session_id)
values (%s, %s, %s, %s, %s, %s)
on conflict (user_id, address_hash) do update
set address = excluded.address, session_id = excluded.session_id, state = 'active', tries = 0,
    last_error = null, not_before = '-infinity', told_until = excluded.told_until
returning {columns}

-- name: remove
delete from channels where user_id = %s and id = %s returning {columns}

-- name: remove_address
delete from channels where user_id = %s and address_hash = %s returning {columns}

-- name: of_user
select {columns} from channels c where user_id = %s and {logged_in} order by created_at

-- name: is_told
select {columns} from channels c where user_id = %s and address_hash = %s and {logged_in}

-- name: forget_logged_out
delete from channels c where not {logged_in} returning {columns}

-- name: address
select address from channels where id = %s

-- name: vapid_key
update users set vapid_key = coalesce(vapid_key, %s) where id = %s returning vapid_key

-- name: to_be_told
select c.id from channels c
where c.state = 'active' and c.not_before <= clock_timestamp() and {logged_in}
and exists (select from inbox_items i where i.user_id = c.user_id and i.status = 'pending' and {untold})

-- name: some_to_be_told
select exists ({to_be_told}) as found

-- name: claim
update channels set not_before = clock_timestamp() + make_interval(secs => %s)
where id in ({to_be_told} for update skip locked)
returning {columns}

-- name: told
update channels set told_until = greatest(told_until, %s), told_at = clock_timestamp(), tries = 0,
       last_error = null, not_before = clock_timestamp() + %s
where id = %s

-- name: failed
update channels set last_error = %(error)s, tries = (tries + 1) %% %(most)s,
       told_until = case when tries + 1 = %(most)s then %(until)s else told_until end,
       not_before = clock_timestamp() + greatest(
           make_interval(secs => %(after)s), back_off(tries, '30 seconds', '1 hour'))
where id = %(id)s

-- name: gone
update channels set state = 'gone', last_error = %s where id = %s

-- name: waits
select count(*) as waiting, count(*) filter (where is_new) as new, max(since) filter (where is_new) as until
from (select {since} as since, {untold} as is_new
      from inbox_items i join channels c on c.user_id = i.user_id
      where c.id = %s and i.status = 'pending' and {since} <= clock_timestamp()) waits

-- name: new_items
select i.id from inbox_items i join channels c on c.user_id = i.user_id
where c.id = %s and i.status = 'pending' and {since} > c.told_until and {since} <= %s
order by {since}, i.id limit %s
