-- What belongs together: the calls of one message of a model are one proposal. Null: an older version made the item.
alter table inbox_items add column group_id text;

-- A part that was accepted and is asked about again, since another part was not: {because, item, decision, decided_by,
-- decided_at, undo_until, args}. `item` is the one that was not; the rest is what the answer was, so that it comes back
-- if that one's answer is taken back. `args` are those that were proposed at first, where the person had edited them.
alter table inbox_items add column reopened json;
alter table inbox_items add column reopened_at timestamptz;
create index inbox_items_reopened on inbox_items (user_id, reopened_at) where reopened_at is not null;

-- What is open in one run at one time is of one message.
update inbox_items set group_id = 'before ' || run_id where status in ('pending', 'decided');
