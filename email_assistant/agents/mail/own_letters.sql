-- Letters of the person's own, for `own_letters.py`.

-- name: candidates
-- Answers that they wrote themselves in other conversations: the newest to these people, and those with most of these
-- words. A word that very many of their letters have tells nothing, and is not followed any further.
with hits as (
    select h.gmail_id, 1.0 / h.among as weight
    from unnest(%(words)s::text[]) as asked (word) cross join lateral (
        select f.gmail_id, count(*) over () as among from (
            select m.gmail_id from mails m
            where m.own and m.account_id = %(account)s
            and mail_words(m.sender, m.subject, m.content) @@ plainto_tsquery('simple', asked.word)
            limit %(common)s) as f) as h
    where h.among < %(common)s),
near as (
    (select m.gmail_id from mails m
     where m.own and m.account_id = %(account)s and recipients_of(m.content) && %(to)s::text[]
     order by m.received_at desc limit %(most)s)
    union (select gmail_id from hits group by gmail_id order by sum(weight) desc, gmail_id limit %(most)s))
select m.gmail_id as id, m.subject, m.received_at as at, left(m.content->>'body', %(read)s) as body,
       coalesce(m.content->'to', '[]') || coalesce(m.content->'cc', '[]') || coalesce(m.content->'bcc', '[]') as people
from near join mails m on m.account_id = %(account)s and m.gmail_id = near.gmail_id
join threads t on t.id = m.thread_id
where m.readable and t.gmail_id <> %(thread)s and m.content->>'in_reply_to' is not null
and (m.content->'auto_submitted' = 'true') is not true
and not exists (
    select from effects e left join inbox_items i on i.run_id = e.run_id and i.call_id = e.call_id
    where e.thread_id = m.thread_id and e.external_id = m.gmail_id and (i.decision->>'type' = 'edit') is not true)
