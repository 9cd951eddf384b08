-- `Name <a@b>` is a recipient too, as `mail.address.address_of` says it: what counts is the address in it. No function
-- of ours is called by another: an index calls this one wherever its schema is, and whatever the path.
create or replace function addresses_in(args json) returns text[] language plpgsql immutable as $$
begin
    return array(
        select distinct lower(btrim(coalesce(substring(recipient from '^[^<>]*<([^<>]*)>\s*$'), recipient))) from (
            select args->>'email_address' where json_typeof(args->'email_address') = 'string'
            union all
            select each from (values (args->'additional_recipients'), (args->'attendees')) as lists (list),
                json_array_elements_text(case json_typeof(list) when 'array' then list else '[]' end) as each
        ) as named (recipient));
exception when invalid_text_representation or untranslatable_character then
    return '{}';
end
$$;
-- They hold what the function said before. Items before effects, as everywhere (`db/order.py`).
reindex index inbox_items_proposed;
reindex index effects_reached;
