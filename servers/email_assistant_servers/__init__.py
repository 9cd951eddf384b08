"""Programs that others connect to. Each is started alone, by its module's name; the assistant imports none of them."""
