-- What is learned from the outcomes of mail, and what the judgements on it prove; `judgements.py` says what each is for.

-- name: standing
-- The classifiers that were tried; how much there is to learn from, and how much is known; how much of that became known
-- after a place in the order in which the live mail is a case.
select coalesce((select json_agg(json_build_object('version', version, 'examples', examples, 'kept', kept)
                                 order by version) from classifiers where account_id = %(account)s), '[]') as versions,
       count(*) filter (where {teaches}) as taught, count(*) as known,
       count(*) filter (where (known_at, mail_id) > (%(at)s::timestamptz, %(mail)s)) as later,
       (select count(*) from past_judgements where account_id = %(account)s) as past
from judgements j where account_id = %(account)s and truth is not null

-- name: since
-- What has become known after a place in the order in which the live mail is a case.
select mail_id, thought, confidence, truth, decided, checked, known_at, exists (
           select from past_judgements p where p.account_id = j.account_id and p.gmail_id = j.mail_id) as is_past
from judgements j where account_id = %(account)s and truth is not null
and (known_at, mail_id) > (%(at)s::timestamptz, %(mail)s) order by known_at, mail_id

-- name: past
select thought, confidence, truth, false as decided, false as checked, true as past
from past_judgements where account_id = %(account)s order by known_at, gmail_id

-- name: backtest
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

-- name: drop_outcomes
-- A version is due to be learned anew by how much it had to learn from: of that these are missing from now on.
update classifiers c set examples = greatest(0, c.examples - gone.n) from classifiers o cross join lateral (
    select count(*)::int as n from judgements j join mails m on m.account_id = j.account_id and m.gmail_id = j.mail_id
    where m.thread_id = any(%(threads)s) and j.truth is not null and j.known_at <= o.version and ({teaches})) as gone
where o.account_id = %(account)s and c.account_id = o.account_id and c.version = o.version and gone.n > 0
