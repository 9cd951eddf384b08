-- Letters of the person's own, for `own_letters.py`.

-- name: candidates
-- Answers that they wrote themselves in other conversations: the newest to these people, and those with most of these
-- words. A word that very many of their letters have tells nothing, and is not followed any further.
with sent as not materialized (
    select account_id, gmail_id, (select t.gmail_id from threads t where t.id = m.thread_id) as thread, subject,
           received_at, content, mail_words(sender, subject, content) as words, recipients_of(content) as recipients
    from mails m where own and readable and has_text
    union all
    select account_id, gmail_id, thread_id, content->>'subject', received_at, content,
           mail_words('', coalesce(content->>'subject', ''), content), recipients_of(content)
    from past_mails where 'SENT' = any(labels)),
hits as (
    select h.gmail_id, 1.0 / h.among as weight
    from unnest(%(words)s::text[]) as asked (word) cross join lateral (
        select f.gmail_id, count(*) over () as among from (
            select gmail_id from sent
            where account_id = %(account)s and words @@ plainto_tsquery('simple', asked.word) limit %(common)s) as f) as h
    where h.among < %(common)s),
near as (
    (select gmail_id from sent where account_id = %(account)s and recipients && %(to)s::text[]
     order by received_at desc limit %(most)s)
    union (select gmail_id from hits group by gmail_id order by sum(weight) desc, gmail_id limit %(most)s))
select s.gmail_id as id, s.subject, s.received_at as at, left(s.content->>'body', %(read)s) as body,
       coalesce(s.content->'to', '[]') || coalesce(s.content->'cc', '[]') || coalesce(s.content->'bcc', '[]') as people
from near cross join lateral (
    select * from sent where account_id = %(account)s and gmail_id = near.gmail_id limit 1) as s
where s.thread <> %(thread)s and s.content->>'in_reply_to' is not null
and (s.content->'auto_submitted' = 'true') is not true
and not exists (
    select from effects e left join inbox_items i on i.run_id = e.run_id and i.call_id = e.call_id
    where e.account_id = s.account_id and e.state = 'done' and e.external_id = s.gmail_id
    and (i.decision->>'type' = 'edit') is not true)
