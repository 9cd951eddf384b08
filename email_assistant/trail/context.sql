-- What a person looks at before they decide; `letter` is a part of others.

-- name: letter
select gmail_id as id, own, sender, content->'sender'->>'name' as name, subject, received_at,
       coalesce((select array_agg(person->>'email') from jsonb_array_elements(
           coalesce(content->'to', '[]') || coalesce(content->'cc', '[]')) as person), '{}') as recipients,
       left(coalesce(nullif(content->>'text', ''), content->>'note', ''), %(characters)s) as text,
       length(coalesce(content->>'text', '')) > %(characters)s as cut,
       coalesce((select array_agg(part->>'name') from jsonb_array_elements(
           coalesce(content->'attachments', '[]')) as part), '{}') as attachments
from mails where user_id = %(user)s and

-- name: conversation
{letter} thread_id = %(thread)s
order by received_at desc, gmail_id desc limit %(most)s

-- name: one
{letter} account_id = %(account)s and gmail_id = %(mail)s

-- name: triage
select classification, triage_reason as reason, triaged_at as at from mails
where user_id = %(user)s and account_id = %(account)s and gmail_id = %(mail)s and classification is not null

-- name: before
select i.id, m.sender, m.subject, i.kind, i.decision::text as decision, i.decided_by, i.decided_at
from mails m join inbox_items i on i.account_id = m.account_id and i.mail_id = m.gmail_id
where m.user_id = %(user)s and m.account_id = %(account)s and m.sender = %(sender)s and i.kind = %(kind)s
  and i.decided_at is not null
  and i.mail_id is distinct from (select mail_id from inbox_items where id = %(item)s)
order by i.decided_at desc, i.id limit %(similar)s
