-- How much there is of what in the inbox, for `counts.py`; `snoozed` is no status, but counted as one.

-- name: counts
select 'pending' as status, a.address as account, k.kind, n.count
from accounts a cross join unnest(%(kinds)s::text[]) as k (kind) cross join lateral (
    select count(*) from (select from inbox_items i where i.user_id = %(user)s and i.status = 'pending'
                          and i.account_id = a.id and i.kind = k.kind and {awake}
                          limit %(most)s) as few) as n
where a.user_id = %(user)s and (a.provider <> 'none' or n.count > 0)

union all
select 'pending', null, 'confirmation', count(*)
from (select from inbox_items i where i.user_id = %(user)s and i.status = 'pending' and i.account_id is null and {awake}
      limit %(most)s) as few

union all
select s.status, null, null, n.count
from unnest(%(statuses)s::text[]) as s (status) cross join lateral (
    select count(*) from (select from inbox_items i where i.user_id = %(user)s and i.status = s.status
                          limit %(most)s) as few) as n

union all
select 'snoozed', null, null, count(*)
from (select from inbox_items i where i.user_id = %(user)s and i.status = 'pending'
      and i.snoozed_until > statement_timestamp() limit %(most)s) as few
