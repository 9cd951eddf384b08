"""Parse a message, clean its text, compose a reply. Pure functions: no I/O, no other rooms."""
