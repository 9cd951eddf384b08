-- Which of the person's decisions a rule is likely about, for `trial.py`.

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
