-- The text of mail that is long done may go, and after it all that was done about it (EMAIL_ASSISTANT_KEEP_…_DAYS).
alter table mails add column has_text boolean not null default true;  -- it was not taken out of its conversation
create index mails_with_text on mails (account_id, received_at, gmail_id) where has_text;

-- What hangs on a conversation is found from it: without these, each that goes would have the tables read whole.
create index inbox_items_of_thread on inbox_items (thread_id);
create index effects_of_thread on effects (thread_id);
create index left_drafts_of_thread on left_drafts (thread_id);

-- The arguments of a call, or an answer to it, with `instead` for each text but addresses, times and what is a subject.
-- What this program never writes is left out.
create function without_text(args json, instead text) returns json language plpgsql immutable as $$
begin
    return case json_typeof(args)
        when 'string' then to_json(instead)
        when 'array' then to_json(array[instead])
        when 'object' then (
            select coalesce(json_object_agg(key, case
                when key in ('email_id', 'email_address', 'additional_recipients', 'from_address', 'attendees',
                             'organizer_email', 'subject', 'title', 'start_time', 'end_time', 'timezone', 'url')
                or json_typeof(value) in ('number', 'boolean', 'null') then value
                else to_json(instead) end), '{}') from json_each(args))
        else args end;
exception when data_exception then
    return '{}';
end
$$;
