-- What an item is marked for, and whom an account has written to.

alter table inbox_items
    add column marks        json,                          -- [{kind, address, text}]; null: an earlier version made it,
                                                           -- and nobody has judged its recipients by today's rules
    add column first_answer text,                          -- the From that is answered, if it was never written to
    add column typed        text[] not null default '{}';  -- addresses that its edit has and no proposal before had

create table asked_recipients (               -- what Gmail's own search said: were they ever written to?
    account_id  uuid not null references accounts on delete cascade,
    address     text not null,                -- lower case
    user_id     uuid not null references users,
    written     boolean not null,             -- a no counts only until there is sent mail to them here, or an effect
    asked_at    timestamptz not null default clock_timestamp(),
    primary key (account_id, address)
);

-- Everybody whom a mail names as its recipient, in lower case.
create function recipients_of(content jsonb) returns text[] language sql immutable as $$
    select array(select distinct lower(person->>'email') from jsonb_array_elements(
        coalesce(content->'to', '[]') || coalesce(content->'cc', '[]') || coalesce(content->'bcc', '[]')) as person)
$$;
create index mails_written_to on mails using gin (recipients_of(content)) where own;
create index mails_own on mails (account_id) where own;

-- Everybody whom a call would reach, as `inbox.recipients.addresses_in` says it. Where a text of the call has what
-- Postgres has no text for (NUL, half of a surrogate pair), it can't look into any of it.
create function addresses_in(args json) returns text[] language plpgsql immutable as $$
begin
    return array(
        select lower(btrim(args->>'email_address')) where json_typeof(args->'email_address') = 'string'
        union
        select lower(btrim(each)) from (values (args->'additional_recipients'), (args->'attendees')) as lists (list),
            json_array_elements_text(case json_typeof(list) when 'array' then list else '[]' end) as each);
exception when invalid_text_representation or untranslatable_character then
    return '{}';
end
$$;
create index effects_reached on effects using gin (addresses_in(args)) where state = 'done';
create index inbox_items_proposed on inbox_items using gin (addresses_in(args));
create index inbox_items_typed on inbox_items using gin (typed) where typed <> '{}';
