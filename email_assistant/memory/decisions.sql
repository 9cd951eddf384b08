-- What the person decided on mail, for `decisions.py`.

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
