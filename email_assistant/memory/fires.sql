-- All SQL on `rule_fires`; `fires.py` says what each statement is for.

-- name: note
insert into rule_fires (user_id, account_id, profile, rule, version, mail_id)
select a.user_id, a.id, %s, f.rule, f.version, %s
from accounts a, unnest(%s::text[], %s::int[]) as f (rule, version)
where a.id = %s and {held} on conflict do nothing

-- name: counted
select profile, rule, count(*) as times, max(at) as last_at from rule_fires
where account_id = %s group by profile, rule

-- name: forget_mails
delete from rule_fires where account_id = %s and mail_id = any(%s)

-- name: forget_rule
delete from rule_fires where account_id = %s and profile = %s and rule = %s
