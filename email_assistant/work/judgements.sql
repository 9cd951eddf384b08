-- What the stage that learned from the person thought of mail, and what was right; `judgements.py` says what each is for.

-- name: record
insert into judgements (account_id, mail_id, user_id, thought, confidence, version, decided, checked)
select account_id, gmail_id, user_id, %s, %s, %s, %s, %s from mails
where thread_id = %s and gmail_id = %s and not own and {held}
on conflict do nothing returning mail_id

-- name: corrected
update judgements set truth = %(truth)s, known_by = 'corrected', known_at = clock_timestamp()
where account_id = %(account)s and mail_id = %(mail)s

-- name: settle
-- The person's word first, then what they did, then what they let stand for two weeks. Mail that was to be answered,
-- and was not, needed no answer.
with one_at_a_time as materialized (
    -- Since two that change the same rows in another order would wait for each other.
    select pg_advisory_xact_lock(hashtextextended('judgements ' || %(name)s, 0))),
settled as (
update judgements j set truth = found.truth, known_by = found.by, known_at = found.at
from one_at_a_time, judgements o join mails m on m.account_id = o.account_id and m.gmail_id = o.mail_id cross join lateral (
    select * from (
        (select 1 as rank, classification as truth, at, 'corrected' as by from corrections c
         where c.account_id = m.account_id and c.mail_id = m.gmail_id order by at desc limit 1)
        union all
        (select 2, 'respond', a.received_at, 'answered' from mails a
         where a.thread_id = m.thread_id and a.own and not (a.content->>'auto_submitted')::boolean
         and a.received_at > m.received_at and a.received_at <= m.received_at + interval '14 days'
         and (recipients_of(a.content) @> array[m.sender] or a.content->>'in_reply_to' = m.content->>'message_id')
         order by a.received_at limit 1)
        union all
        (select 3, case when i.kind = 'notification' then
                            case i.decision->>'type' when 'accept' then 'notify' when 'ignore' then 'ignore'
                                                     else 'respond' end
                        when i.decision->>'type' = 'ignore' then 'notify' else 'respond' end, i.applied_at, 'said'
         from inbox_items i
         where i.account_id = m.account_id and i.mail_id = m.gmail_id and i.status = 'applied'
         and i.kind in ('notification', 'draft', 'meeting', 'question')
         order by (i.kind <> 'notification' and i.decision->>'type' <> 'ignore') desc, i.applied_at desc limit 1)
        union all
        (select 4, 'ignore', coalesce(case when o.known_by = 'put away' then o.known_at end, clock_timestamp()),
                'put away'
         where m.put_away = any(%(rid_of)s))
        union all
        (select 5, case m.classification when 'respond' then 'notify' else m.classification end,
                greatest(m.received_at, m.triaged_at) + interval '14 days', 'silence'
         where greatest(m.received_at, m.triaged_at) < clock_timestamp() - interval '14 days')
    ) as each order by rank limit 1) as found
where o.account_id = %(account)s and m.classification is not null
and (o.truth is null or o.made_at > clock_timestamp() - interval '15 days')
and (found.truth, found.by) is distinct from (o.truth, o.known_by)
and j.account_id = o.account_id and j.mail_id = o.mail_id
returning ({teaches})::int - (o.truth is not null and ({taught_before}))::int as more)
select coalesce((select json_agg(json_build_object('version', version, 'examples', examples, 'kept', kept)
                                 order by version) from classifiers where account_id = %(account)s), '[]') as versions,
       (select count(*) from judgements j where account_id = %(account)s and truth is not null and ({teaches}))
       + (select coalesce(sum(more), 0) from settled) as known

-- name: standing
-- How much is known, and since when: what is computed from the rows holds until this changes.
select count(*) as known, max(known_at) as at,
       (select count(*) from past_judgements where account_id = %(account)s) as past
from judgements where account_id = %(account)s and truth is not null

-- name: cases
-- The past comes first: it was kept before anything was thought of live mail. A mail of it that arrives once more had
-- been learned from.
select thought, confidence, truth, decided, checked, past from (
    select account_id, gmail_id as mail_id, thought, confidence, truth, known_at, false as decided, false as checked,
           true as past
    from past_judgements
    union all
    select account_id, mail_id, thought, confidence, truth, known_at, decided, checked, false
    from judgements j where truth is not null and thought is not null
    and not exists (select from past_judgements p where p.account_id = j.account_id and p.gmail_id = j.mail_id)
) as cases where account_id = %s order by past desc, known_at, mail_id

-- name: foretold
insert into past_judgements (account_id, gmail_id, user_id, thought, confidence, version, truth, known_at)
select distinct on (mail_id) p.account_id, p.gmail_id, p.user_id, thought, confidence, version, truth, known_at
from unnest(%s::text[], %s::text[], %s::float[], %s::timestamptz[], %s::text[], %s::timestamptz[])
     as found (mail_id, thought, confidence, version, truth, known_at)
join past_mails p on coalesce(p.content->>'message_id', '<' || p.gmail_id || '@no-message-id>') = mail_id
where p.account_id = %s order by mail_id, p.gmail_id
on conflict do nothing

-- name: taught
select mail_id, truth, known_at from judgements j
where account_id = %s and truth is not null and ({teaches})
order by known_at, mail_id

-- name: tried
insert into classifiers (account_id, version, user_id, examples, kept, why)
select id, %(version)s, user_id, %(examples)s, %(kept)s, %(why)s from accounts where id = %(account)s
on conflict do nothing

-- name: let_go
-- A version is due to be learned anew by how much it had to learn from: of that these are missing from now on.
update classifiers c set examples = greatest(0, c.examples - gone.n) from classifiers o cross join lateral (
    select count(*)::int as n from judgements j join mails m on m.account_id = j.account_id and m.gmail_id = j.mail_id
    where m.thread_id = any(%(threads)s) and j.truth is not null and j.known_at <= o.version and ({teaches})) as gone
where o.account_id = %(account)s and c.account_id = o.account_id and c.version = o.version and gone.n > 0
