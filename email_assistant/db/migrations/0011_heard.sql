-- Where a chat's calls have read private data, such as mail or a calendar: `here`, or a server that is not ours, by its
-- name. From then on what goes to such a server is asked about. Null: an older version began it and did not note that.
alter table threads add column heard text[];

alter table inbox_items add column because text;  -- why a person is asked, where their own rule would not have it
