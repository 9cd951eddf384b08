-- `Name <a@b>` is a recipient too, as `mail.address.address_of` says it: what counts is the address in it.
create function address_of(recipient text) returns text language sql immutable as $$
    select lower(btrim(coalesce(substring(recipient from '^[^<>]*<([^<>]*)>\s*$'), recipient)))
$$;

create or replace function addresses_in(args json) returns text[] language plpgsql immutable as $$
begin
    return array(
        select email_assistant.address_of(args->>'email_address') where json_typeof(args->'email_address') = 'string'
        union
        select email_assistant.address_of(each) from (values (args->'additional_recipients'), (args->'attendees')) as lists (list),
            json_array_elements_text(case json_typeof(list) when 'array' then list else '[]' end) as each);
exception when invalid_text_representation or untranslatable_character then
    return '{}';
end
$$;
-- They hold what the function said before.
reindex index effects_reached;
reindex index inbox_items_proposed;
