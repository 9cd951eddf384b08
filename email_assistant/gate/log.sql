-- What of the gate's log does not hold, for `log.py`.

-- name: broken
-- A row that was altered, or that stands where another is missing.
with sealed as (
    select *, lag(id) over before as last_id, lag(seal) over before as last_seal from gate_log window before as (order by id))
select id, what, row_id,
       case when id <> coalesce(last_id, 0) + 1 then 'a row before it is missing' else 'it was altered' end as why
from sealed
where id <> coalesce(last_id, 0) + 1 or seal <> sha256(coalesce(last_seal, '') || digest || convert_to(
    concat_ws(' ', id, extract(epoch from at), what, row_id, whose), 'UTF8'))
order by id limit %s

-- name: changed
-- What it tells of, and that says something else now, or is not there. What went with an account is no fault.
select l.id, l.what, l.row_id,
       case when r.digest is null then 'what it tells of is missing' else 'what it tells of was altered' end as why
from gate_log l left join lateral (
    select digest_of_begun(b) as digest from gate_begun b where l.what = 'begun' and b.id::text = l.row_id
    union all select digest_of_ran(c) from gate_calls c where l.what = 'ran' and c.id::text = l.row_id
    union all select digest_of_answered(i) from inbox_items i where l.what = 'answered' and i.id::text = l.row_id
    union all select digest_of_ended(e) from gate_ended e where l.what = 'ended' and e.id::text = l.row_id) r on true
where r.digest is distinct from l.digest
and not (r.digest is null and l.whose is not null and not exists (select from accounts a where a.id = l.whose))
order by l.id limit %s

-- name: unlogged
-- What it should tell of: then its end is missing.
select coalesce((select max(id) from gate_log), 0) + 1 as id, f.what, f.row_id, 'it is missing' as why
from (select 'begun' as what, id::text as row_id from gate_begun union all select 'ran', id::text from gate_calls
      union all select 'ended', id::text from gate_ended
      union all select 'answered', id::text from inbox_items where run_id is null and status <> 'pending') f
where not exists (select from gate_log l where l.what = f.what and l.row_id = f.row_id) limit %s

-- name: last
select id, encode(seal, 'hex') as seal from gate_log order by id desc limit 1
