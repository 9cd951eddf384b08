-- What rehearsals have read goes after its time too, counted from when it was read: they read mail of many months.
alter table past_mails add column read_at timestamptz not null default now();
create index past_mails_read_at on past_mails (account_id, read_at);

-- As before, but that a meeting's title goes too: it says what the person wrote.
create or replace function without_text(args json, instead text) returns json language plpgsql immutable as $$
begin
    return case json_typeof(args)
        when 'string' then to_json(instead)
        when 'array' then to_json(array[instead])
        when 'object' then (
            select coalesce(json_object_agg(key, case
                when key in ('email_id', 'email_address', 'additional_recipients', 'from_address', 'attendees',
                             'organizer_email', 'subject', 'start_time', 'end_time', 'timezone', 'url')
                or json_typeof(value) in ('number', 'boolean', 'null') then value
                else to_json(instead) end), '{}') from json_each(args))
        else args end;
exception when data_exception then
    return '{}';
end
$$;

-- What something was proposed for is gone through once more.
update mails m set has_text = true where not has_text and exists (
    select from inbox_items i where i.thread_id = m.thread_id);
