-- Whom an account has written to, for `recipients.py`.

-- name: written_to
-- What the account's own sent mail, effects that are done, and the person's edits know.
select given.address, asked.written from unnest(%(addresses)s::text[]) with ordinality as given (address, place)
left join asked_recipients asked on asked.account_id = %(account)s and asked.address = given.address
where not exists (select from mails where account_id = %(account)s and own
                  and recipients_of(content) @> array[given.address])
and not exists (select from effects where account_id = %(account)s and state = 'done'
                and addresses_in(args) @> array[given.address])
and not exists (select from inbox_items where account_id = %(account)s and decision is not null
                and typed <> '{}' and typed @> array[given.address])
order by given.place

-- name: asked
insert into asked_recipients as a (account_id, address, user_id, written)
values (%(account)s, %(address)s, %(user)s, %(written)s)
on conflict (account_id, address) do update
set written = a.written or excluded.written, asked_at = clock_timestamp()

-- name: people
with written as materialized (
    select lower(person->>'email') as address, person->>'name' as name, min(at) as at
        from sent_to, jsonb_array_elements(people) as person
        where account_id = %(account)s group by 1, 2
    -- What was sent is own mail as soon as it is stored, which tells it faster.
    union select unnest(addresses_in(args)), '', null from effects e where account_id = %(account)s and state = 'done'
        and not exists (select from sent_to s where s.account_id = %(account)s and s.gmail_id = e.external_id)
    union select unnest(typed), '', null from inbox_items
        where account_id = %(account)s and decision is not null and typed <> '{}'
    union select address, '', null from asked_recipients where account_id = %(account)s and written),
said as (
    -- What they called themselves first: of many mails from each, one is looked into.
    select distinct on (sender) sender as address, gmail_id, received_at as at from mails
    where account_id = %(account)s and not own and sender = any(array(select address from written))
    order by sender, received_at)
select address, name, at from written
union
select address, content->'sender'->>'name', at from said join mails using (gmail_id) where account_id = %(account)s
order by at nulls last, address

-- name: called
select sender as address, content->'sender'->>'name' as name from mails
where account_id = %(account)s and sender = any(%(addresses)s) and not own limit %(most)s

-- name: between
-- What passed between the account and one address, oldest first; a mail of the account's own names its recipient so.
select own, case when own then (select person->>'name' from jsonb_array_elements(people_of(content)) as person
        where lower(person->>'email') = %(address)s limit 1) else content->'sender'->>'name' end as name
from (select own, content, received_at from mails where account_id = %(account)s
          and own and recipients_of(content) @> array[%(address)s]
      union all select own, content, received_at from mails where account_id = %(account)s
          and not own and sender = %(address)s) as passed
order by received_at

-- name: forget
delete from asked_recipients r where account_id = %(account)s and (
    address ~* %(named)s
    or exists (select from mails m where m.thread_id = any(%(threads)s)
               and address = any(m.sender || recipients_of(m.content)))
    or exists (select from inbox_items i where i.thread_id = any(%(threads)s) and address = any(addresses_in(i.args))))
