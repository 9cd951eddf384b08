-- When a person stopped everything; null: they have not, or it goes on.
create function stopped_since(person uuid) returns timestamptz language sql stable as $$
    select at from stops where user_id = person
$$;
