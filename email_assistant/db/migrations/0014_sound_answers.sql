-- Postgres keeps JSON as text, and finds out only as it looks into it that a string there is none (NUL, half of a
-- surrogate pair): then all that is read together fails. It looks into answers, and this program writes no such text
-- into them. In jsonb each string is looked at as it is written, so the database now refuses an answer that somebody
-- else damages in this way.

create function is_sound(value json) returns boolean language plpgsql as $$
begin
    return value is null or value::jsonb is not null;
exception when data_exception or program_limit_exceeded then
    return false;
end
$$;

-- What was damaged before is shown as unreadable.
update inbox_items
    set args = 'null', taken_back = null, reopened = null, decision = case when is_sound(decision) then decision end
    where position('\u' in concat(decision, taken_back, reopened)) > 0
    and not (is_sound(decision) and is_sound(taken_back) and is_sound(reopened));

drop function is_sound;

alter table inbox_items
    add constraint inbox_items_sound check (
        (decision is null or decision::jsonb is not null) and (taken_back is null or taken_back::jsonb is not null)
        and (reopened is null or reopened::jsonb is not null));
