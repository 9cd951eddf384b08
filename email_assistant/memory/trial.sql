-- What the person decided, which of that a rule is likely about, and all SQL on `rule_fires`; for `trial.py`.

-- name: about
-- `starts`: beginnings of the words of the rule; `kind`: how its headers say that it was sent.
select m.gmail_id as mail,
       (coalesce((m.content->>'bulk')::boolean, false), coalesce((m.content->>'auto_submitted')::boolean, false))::text
           as kind,
       exists (select from rule_fires f where f.account_id = m.account_id and f.profile = %(profile)s
               and f.rule = %(rule)s and f.mail_id = m.gmail_id) as fired,
       (select count(*) from unnest(%(starts)s::text[]) as s (word)
        where w.words @@ to_tsquery('simple', s.word || ':*')) as shared
from mails m cross join lateral (select mail_words(m.sender, m.subject, m.content) as words offset 0) as w
where m.account_id = %(account)s and m.gmail_id = any(%(mails)s) and m.has_text

-- name: newest
with said as (
    select c.mail_id, c.classification as said, c.at from corrections c where c.account_id = %(account)s
    union all
    select i.mail_id, case when i.kind <> 'notification' then case i.decision->>'type' when 'ignore' then 'no answer'
                                                                                        else 'respond' end
                           else case i.decision->>'type' when 'accept' then 'notify' when 'ignore' then 'ignore'
                                                         else 'respond' end end, i.applied_at
    from inbox_items i where i.account_id = %(account)s and i.status = 'applied'
    and (i.teaches or i.decision->>'type' <> 'ignore')
    and (i.kind = 'notification' or i.kind in ('draft', 'meeting') and i.decision->>'type' <> 'response')),
newest as (select distinct on (mail_id) * from said order by mail_id, at desc)
select n.mail_id as mail, m.sender, m.subject, n.said, n.at,
       coalesce((m.content->>'forged')::boolean, false) as forged,
       coalesce((select c.was from corrections c where c.account_id = m.account_id and c.mail_id = m.gmail_id
                 order by c.at limit 1), m.classification) as given
from newest n join mails m on m.account_id = %(account)s and m.gmail_id = n.mail_id
where m.user_id = (select user_id from accounts where id = %(account)s) and m.classification is not null
order by n.at desc limit %(most)s

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
