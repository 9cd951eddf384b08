-- All SQL on `sorted_again`, and the mails that rules are tried on.

-- name: mails
select m.gmail_id, m.own, m.content, case when not %(anew)s then s.said end as said
from mails m left join sorted_again s on s.account_id = m.account_id and s.mail_id = m.gmail_id and s.asked = %(asked)s
where m.account_id = %(account)s and m.gmail_id = any(%(mails)s) and m.readable and m.has_text

-- name: keep
-- Of rules that nobody has tried for long, nothing is kept.
with old as (
    delete from sorted_again where account_id = %(account)s and at < clock_timestamp() - interval '30 days')
insert into sorted_again (user_id, account_id, mail_id, asked, said)
select user_id, account_id, gmail_id, %(asked)s, %(said)s from mails
where account_id = %(account)s and gmail_id = %(mail)s
on conflict (account_id, mail_id, asked) do update set said = excluded.said, at = clock_timestamp()

-- name: newest
-- Of mail that was sorted, and whose text is kept.
select gmail_id, own, content, sender, subject, classification from mails
where account_id = %s and not own and readable and has_text and classification is not null
order by received_at desc, gmail_id desc limit %s
