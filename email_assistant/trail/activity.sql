-- What came in and what was done with it, by day or week; `days` is a part of the others.

-- name: days
with days as (select * from unnest(%(accounts)s::uuid[], %(days)s::date[], %(starts)s::timestamptz[],
                                   %(ends)s::timestamptz[]) as d (account_id, day, starts, ends))

-- name: mails
{days}
select day, count(*) as mails, count(*) filter (where classification = 'ignore') as ignore,
       count(*) filter (where classification = 'notify') as notify,
       count(*) filter (where classification = 'respond') as respond,
       count(*) filter (where classification is null) as untriaged,
       count(*) filter (where stage in ('rules', 'habits')) as without_model,
       count(*) filter (where classification <> (
           select was from corrections c where c.account_id = m.account_id and c.mail_id = m.gmail_id
           order by at limit 1)) as corrected
from days d join mails m on m.user_id = %(user)s and not m.own and m.account_id = d.account_id
     and m.received_at >= d.starts and m.received_at < d.ends
group by day

-- name: decisions
{days}
select day, count(*) as decided,
       count(*) filter (where decision->>'type' = 'accept' and kind in ('draft', 'meeting')) as unchanged,
       count(*) filter (where kind in ('draft', 'meeting') and 'accept' = any(allowed)) as proposals,
       count(distinct mail_id) filter (where decision->>'type' in ('accept', 'edit') and kind = 'draft') as answered,
       count(distinct mail_id) filter (where decision->>'type' = 'accept' and kind = 'draft') as as_proposed,
       count(*) filter (where decision->>'type' in ('accept', 'edit') and kind = 'draft' and 'accept' = any(allowed)
                        and args->>'response_text' is distinct from %(gone)s) as letters,
       percentile_cont(0.5) within group (order by extract(epoch from decided_at - i.created_at))
           filter (where isfinite(i.created_at))::float8 as median_seconds
from days d join inbox_items i on i.user_id = %(user)s and i.account_id = d.account_id
     and i.decided_at >= d.starts and i.decided_at < d.ends
group by day

-- name: edited
-- Each letter that was changed: as it was proposed first, and as it was approved.
{days}
select day, coalesce(i.reopened->'args'->>'response_text', i.args->>'response_text', '') as proposed,
       coalesce(i.decision->'args'->>'response_text', '') as approved
from days d join inbox_items i on i.user_id = %(user)s and i.account_id = d.account_id
     and i.decided_at >= d.starts and i.decided_at < d.ends
where i.kind = 'draft' and i.decision->>'type' = 'edit' and 'accept' = any(i.allowed) and i.args->>'response_text' is distinct from %(gone)s

-- name: learned
{days}
select day, count(*) as learned
from days d join lessons l on l.user_id = %(user)s and l.account_id = d.account_id and l.at >= d.starts and l.at < d.ends
where not l.removed and l.taken_back_at is null
group by day

-- name: usage
{days}
select day, count(*) as model_calls, sum(prompt_tokens)::bigint as prompt_tokens,
       sum(completion_tokens)::bigint as completion_tokens,
       sum(cost) filter (where cost between 0 and 1e9)::float8 as cost,
       count(*) filter (where cost = 0 and prompt_tokens + completion_tokens > 0) as unpriced
from days d join model_usage u on u.account_id = d.account_id and u.at >= d.starts and u.at < d.ends
group by day
