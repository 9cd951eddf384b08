-- What was thought of each mail before the model was asked, and what the mail turned out to need, for `outcomes.py`.

-- name: record
insert into judgements (account_id, mail_id, user_id, thought, confidence, version, decided, checked)
select account_id, gmail_id, user_id, %s, %s, %s, %s, %s from mails
where thread_id = %s and gmail_id = %s and not own and {held}
on conflict do nothing returning mail_id

-- name: corrected
update judgements set truth = %(truth)s, known_by = 'corrected', known_at = clock_timestamp()
where account_id = %(account)s and mail_id = %(mail)s

-- name: note_known
-- The person's word first, then what they did, then what they let stand for two weeks. Mail that was to be answered,
-- and was not, needed no answer. That it was answered stays so, and is not looked for again; what mail says lies apart
-- from its row, and is read only where an answer may be.
with one_at_a_time as materialized (
    -- Since two that change the same rows in another order would wait for each other.
    select pg_advisory_xact_lock(hashtextextended('judgements ' || %(name)s, 0))),
open as materialized (
    select * from one_at_a_time, judgements where account_id = %(account)s and truth is null
    union all
    select * from one_at_a_time, judgements
    where account_id = %(account)s and truth is not null and made_at > statement_timestamp() - interval '15 days'),
unsettled as materialized (
    -- Each by its key: the planner would rather read all mail, and so below with all that was decided.
    select o.mail_id, o.truth, o.known_at, o.known_by, m.*
    from open o cross join lateral (
        select thread_id, sender, received_at, triaged_at, classification, put_away from mails
        where account_id = %(account)s and gmail_id = o.mail_id and classification is not null offset 0) as m),
found as (
    select distinct on (mail_id) mail_id, truth, at, by from (
        select mail_id, 1 as rank, -extract(epoch from c.at) as place, c.classification as truth, c.at,
               'corrected' as by
        from unsettled join corrections c using (mail_id) where c.account_id = %(account)s
        union all
        select mail_id, 2, 0, truth, known_at, 'answered' from unsettled where known_by = 'answered'
        union all
        select u.mail_id, 2, extract(epoch from a.received_at), 'respond', a.received_at, 'answered'
        from unsettled u join mails a on a.account_id = %(account)s and a.thread_id = u.thread_id and a.own
             and a.received_at > (select min(received_at) from unsettled)
             and a.received_at > u.received_at and a.received_at <= u.received_at + interval '14 days'
        join mails m on m.account_id = %(account)s and m.gmail_id = u.mail_id
        where u.known_by is distinct from 'answered' and not (a.content->>'auto_submitted')::boolean
        and (recipients_of(a.content) @> array[u.sender] or a.content->>'in_reply_to' = m.content->>'message_id')
        union all
        select mail_id, case when i.kind <> 'notification' and i.decision->>'type' <> 'ignore' then 3 else 4 end,
               -extract(epoch from i.applied_at),
               case when i.kind = 'notification' then
                        case i.decision->>'type' when 'accept' then 'notify' when 'ignore' then 'ignore'
                                                 else 'respond' end
                    when i.decision->>'type' = 'ignore' then 'notify' else 'respond' end, i.applied_at, 'said'
        from unsettled cross join lateral (
            select kind, decision, applied_at from inbox_items
            where account_id = %(account)s and inbox_items.mail_id = unsettled.mail_id and status = 'applied'
            and (teaches or decision->>'type' <> 'ignore')
            and kind in ('notification', 'draft', 'meeting', 'question') offset 0) as i
        union all
        select mail_id, 5, 0, 'ignore',
               coalesce(case when known_by = 'put away' then known_at end, clock_timestamp()), 'put away'
        from unsettled where put_away = any(%(rid_of)s)
        union all
        select mail_id, 6, 0, case classification when 'respond' then 'notify' else classification end,
               greatest(received_at, triaged_at) + interval '14 days', 'silence'
        from unsettled where greatest(received_at, triaged_at) < clock_timestamp() - interval '14 days'
        and not exists (  -- whoever put it away has not been silent
            select from inbox_items i where i.account_id = %(account)s and i.mail_id = unsettled.mail_id
            and i.status = 'applied' and not i.teaches and i.decision->>'type' = 'ignore' and i.decided_by <> %(expiry)s)
    ) as each order by mail_id, rank, place)
update judgements j set truth = f.truth, known_by = f.by, known_at = f.at from unsettled u join found f using (mail_id)
where (f.truth, f.by) is distinct from (u.truth, u.known_by)
and j.account_id = %(account)s and j.mail_id = u.mail_id

-- name: decided
-- The person's newest decisions on other mail: what they said of it, and what they answered.
select m.sender, m.subject, j.truth from judgements j
join mails m on m.account_id = j.account_id and m.gmail_id = j.mail_id
where j.account_id = %(account)s and j.truth is not null and j.known_by in ('corrected', 'said', 'answered')
and j.mail_id <> %(mail)s and (%(by)s::timestamptz is null or j.known_at <= %(by)s)
order by j.known_at desc, j.mail_id limit 300
