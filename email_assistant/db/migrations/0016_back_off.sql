-- How long to leave alone what went wrong: `first` at first, then twice as long with each further failure, up to
-- `longest`; by a quarter more or less, so that what failed together does not come back together.

create function back_off(failures int, first interval, longest interval) returns interval language sql volatile as $$
    select least(longest, first * power(2, least(failures, 20))) * (0.75 + random() / 2)
$$;
