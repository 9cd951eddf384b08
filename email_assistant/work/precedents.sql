-- name: decided
-- The person's newest decisions on other mail: what they said of it, and what they answered.
select m.sender, m.subject, j.truth from judgements j
join mails m on m.account_id = j.account_id and m.gmail_id = j.mail_id
where j.account_id = %(account)s and j.truth is not null and j.known_by in ('corrected', 'said', 'answered')
and j.mail_id <> %(mail)s and (%(by)s::timestamptz is null or j.known_at <= %(by)s)
order by j.known_at desc, j.mail_id limit 300
