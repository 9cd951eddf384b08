-- The gate's log sealed, and what of it does not hold, for `log.py`.

-- name: seal
select seal_gate_log()

-- name: broken
-- A row that was altered, or that stands where another is missing.
with sealed as (
    select l, l.id, l.place, l.what, l.row_id, l.seal, lag(l.place) over before as last_place,
           lag(l.seal) over before as last_seal
    from gate_log l where l.place is not null window before as (order by l.place))
select place, what, row_id,
       case when place <> coalesce(last_place, 0) + 1 then 'a row before it is missing' else 'it was altered' end as why
from sealed where place <> coalesce(last_place, 0) + 1 or seal <> gate_seal(last_seal, l, place)
order by place limit %s

-- name: changed
-- What it tells of, and that says something else now, or is not there. What went with an account, or was forgotten and
-- is logged as that, is no fault.
select l.place, l.what, l.row_id,
       case when r.digest is null then 'what it tells of is missing' else 'what it tells of was altered' end as why
from gate_log l left join lateral (
    select digest_of_begun(b) as digest from gate_requests b where l.what = 'begun' and b.id::text = l.row_id
    union all select digest_of_ran(c) from gate_calls c where l.what = 'ran' and c.id::text = l.row_id
    union all select digest_of_answered(i) from inbox_items i where l.what = 'answered' and i.id::text = l.row_id
    union all select digest_of_ended(e) from gate_ended e where l.what = 'ended' and e.id::text = l.row_id) r on true
where r.digest is distinct from l.digest and l.place is not null and l.what <> 'forgotten'
and not exists (select from gate_log f where f.what = 'forgotten' and f.row_id = l.what || ' ' || l.row_id)
and not (r.digest is null and l.whose is not null and not exists (select from accounts a where a.id = l.whose))
order by l.place limit %s

-- name: unlogged
-- What it should tell of: its row was there, and is missing.
select null as place, f.what, f.row_id, 'the log tells nothing of it' as why
from (select 'begun' as what, id::text as row_id from gate_requests union all select 'ran', id::text from gate_calls
      union all select 'ended', id::text from gate_ended
      union all select 'answered', id::text from inbox_items where run_id is null and status <> 'pending') f
where not exists (select from gate_log l where l.what = f.what and l.row_id = f.row_id) limit %s

-- name: last
select place, encode(seal, 'hex') as seal, (select count(*) from gate_log where what = 'forgotten') as forgotten
from gate_log where place is not null order by place desc limit 1

-- name: forget
select forget_in_gate_log(%s, %s)
