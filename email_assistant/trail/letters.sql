-- Letters that the person approved, for `letters.py`.

-- name: approved
-- As they were proposed first, and as they were approved.
select case when i.mail_id is null then 'letter of a chat' else 'reply' end as kind, i.decided_at as at,
       coalesce(i.reopened->'args'->>'response_text', i.args->>'response_text', '') as proposed,
       coalesce(case i.decision->>'type' when 'accept' then i.args->>'response_text'
                                         else i.decision->'args'->>'response_text' end, '') as sent
from inbox_items i
where i.user_id = %(user)s and i.account_id = any(%(accounts)s) and i.decision->>'type' in ('accept', 'edit')
and i.action = %(tool)s and 'accept' = any(i.allowed) and i.args->>'response_text' is distinct from %(gone)s and i.status in ('decided', 'applied')
order by i.decided_at, i.id
