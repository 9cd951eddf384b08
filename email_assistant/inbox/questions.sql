-- What the person has said in runs, for `questions.py`.

-- name: overtaken
with recursive before as (
    select id, thread_id from runs where id = %(run)s
    union select r.id, r.thread_id from runs r
          join before b on r.thread_id = b.thread_id and r.superseded_by = b.id)
select distinct on (kind) kind, args::text, decision::text from inbox_items
where run_id in (select id from before) and status = 'superseded'
and decision->>'type' in ('accept', 'edit') and kind <> 'notification'
and not exists (select from inbox_items where run_id = %(run)s)
order by kind, decided_at desc

-- name: said
select kind, args::text, coalesce(decision, reopened->'decision')::text as decision, status
from inbox_items
where run_id = any(%s) and coalesce(decision, reopened->'decision') is not null
order by coalesce(decided_at, (reopened->>'decided_at')::timestamptz)
