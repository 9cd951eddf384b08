-- Where everything stands, as rows of a figure's name, its labels and its value; for `gauges.py`. None of it grows with
-- what is finished: mail and effects that are not, what came to an end of late, what waits, and one row an account.

-- name: mail
select 'email_assistant_mails' as name, array[state, coalesce(classification, 'none')] as labels, count(*)::float8 as value
from mails where state <> 'done' group by state, classification

-- name: items
select 'email_assistant_waiting_items', array[kind], count(*)::float8
from inbox_items where status = 'pending' group by kind

-- name: effects
select 'email_assistant_open_effects', array[state], count(*)::float8
from effects where state in ('planned', 'started', 'unknown', 'refused') group by state
union all
select 'email_assistant_effects_last_hour', array[state], count(*)::float8
from effects where state in ('done', 'failed') and finished_at > statement_timestamp() - interval '1 hour' group by state

-- name: due
-- As `work/due.py` finds it: nobody is at it, it backs off no more, and no person's word comes first. Since when a mail
-- is due is told by when it came.
select name, labels, value from (
    select kind, count(*)::float8 as depth,
           coalesce(extract(epoch from statement_timestamp() - min(since)), 0)::float8 as age
    from (
        select 'decision' as kind, i.thread_id, i.account_id, greatest(i.undo_until, i.not_before) as since
        from inbox_items i
        where i.status = 'decided' and greatest(i.undo_until, i.not_before) <= statement_timestamp()
        and not exists (select from inbox_items o where o.run_id = i.run_id and (
            o.status = 'pending' or o.status = 'decided' and o.undo_until > statement_timestamp()))
        union all
        select 'decision', r.thread_id, r.account_id,
               greatest(r.not_before, (select max(applied_at) from inbox_items i where i.run_id = r.id))
        from runs r where r.state = 'acting' and r.not_before <= statement_timestamp()
        union all
        select 'mail', m.thread_id, m.account_id, greatest(m.not_before, m.received_at)
        from mails m where m.state = 'new' and not m.own and m.not_before <= statement_timestamp()
        union all
        select 'mail', m.thread_id, m.account_id, greatest(m.not_before, m.received_at)
        from mails m where m.state = 'triaging' and m.not_before <= statement_timestamp()
        and coalesce((select r.state from runs r where r.id = m.run_id), '') not in ('running', 'waiting', 'acting')
        union all
        select 'mail', r.thread_id, r.account_id, greatest(r.not_before, r.created_at)
        from runs r where r.state = 'running' and r.not_before <= statement_timestamp()
    ) as open
    join accounts a on a.id = open.account_id and a.state = 'active' and a.provider in (%(provider)s, 'none')
         and (kind = 'decision' or not %(waits)s or a.spent_until <= statement_timestamp())
    cross join lateral (  -- each by itself, or Postgres reads all of them
        select t.id from threads t where t.id = open.thread_id
        and t.lease_until < statement_timestamp() and t.not_before <= statement_timestamp() offset 0) as t
    where not exists (select from runs h join inbox_items i on i.run_id = h.id
                      where h.thread_id = t.id and h.state = 'acting' and i.status = 'pending')
    group by kind
) as due cross join lateral (values
    ('email_assistant_due_work', array[kind], depth),
    ('email_assistant_due_work_oldest_seconds', array[kind], age)) as figures (name, labels, value)

-- name: jobs
select 'email_assistant_jobs', array[queue_name::text, status::text], count(*)::float8
from procrastinate_jobs where status in ('todo', 'doing')
and (scheduled_at is null or scheduled_at <= statement_timestamp()) group by queue_name, status

-- name: accounts
select 'email_assistant_accounts', array[state], count(*)::float8
from accounts where provider = %(provider)s group by state
union all
select name, '{}', value::float8
from (select count(*) filter (where last_error is not null) as failing,
             count(*) filter (where spent_until > statement_timestamp()) as spent,
             coalesce(extract(epoch from statement_timestamp() - min(coalesce(listed_at, created_at))), 0) as unseen
      from accounts where provider = %(provider)s and state = 'active') as active,
lateral (values ('email_assistant_accounts_failing', failing), ('email_assistant_accounts_budget_spent', spent),
                ('email_assistant_oldest_look_seconds', unseen)) as figures (name, value)

-- name: usage
select figures.name, array[role] || label, sum(value)::float8
from accounts a
cross join lateral (select role, prompt_tokens, completion_tokens, cost from model_usage u where u.account_id = a.id
                    and u.at > statement_timestamp() - interval '1 hour' offset 0) as used  -- likewise
cross join lateral (values
    ('email_assistant_model_tokens_last_hour', array['prompt'], prompt_tokens::numeric),
    ('email_assistant_model_tokens_last_hour', array['completion'], completion_tokens::numeric),
    ('email_assistant_model_cost_last_hour', '{}'::text[], case when cost between 0 and 1e9 then cost else 0 end)
) as figures (name, label, value)
group by figures.name, role, label

-- name: refusing
select 'email_assistant_model_servers_refusing', '{}'::text[], count(*)::float8 from model_refusals

-- name: quota
-- A bucket's level as it is by now; one that was never emptied, or can't be, is none of ours.
select 'email_assistant_google_quota_level', array[split_part(q.name, '/', 1)], max(greatest(
           q.level - r.rate * extract(epoch from statement_timestamp() - q.at)::float8, 0))
from quota q join unnest(%(buckets)s::text[], %(rates)s::float8[]) as r (bucket, rate) on r.bucket = split_part(q.name, '/', 1)
where isfinite(q.at) and q.level < 1e9 group by split_part(q.name, '/', 1)

-- name: processes
select 'email_assistant_working_processes', '{}'::text[], count(*)::float8
from presences where provider = %(provider)s and exists (
    select from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
    and (classid::bigint << 32 | objid::bigint) = holder)

-- name: all
({mail}) union all ({items}) union all ({effects}) union all ({due}) union all ({jobs}) union all ({accounts})
union all ({usage}) union all ({refusing}) union all ({quota}) union all ({processes})
