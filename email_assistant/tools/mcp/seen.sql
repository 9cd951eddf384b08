-- All SQL on `mcp_tools`; `seen.py` says what each statement is for.

-- name: look
insert into mcp_tools (user_id, server, tool, hash, description, schema)
values (%(user)s, %(server)s, %(tool)s, %(hash)s, %(description)s, %(schema)s)
on conflict (user_id, server, tool) do update set
    changed_at = case when mcp_tools.hash = %(hash)s then null
                      when mcp_tools.new_hash = %(hash)s then mcp_tools.changed_at
                      else clock_timestamp() end,
    new_hash = nullif(%(hash)s, mcp_tools.hash),
    new_description = case when mcp_tools.hash = %(hash)s then null else %(description)s end,
    new_schema = case when mcp_tools.hash = %(hash)s then null else %(schema)s end
returning new_hash

-- name: accept
update mcp_tools set hash = new_hash, description = new_description, schema = new_schema, seen_at = clock_timestamp(),
       new_hash = null, new_description = null, new_schema = null, changed_at = null
where user_id = %s and server = %s and tool = %s and new_hash = %s
returning tool

-- name: find
select server, tool, hash, description, schema, seen_at, new_hash, new_description, new_schema, changed_at
from mcp_tools where user_id = %s and server = %s and tool = %s
