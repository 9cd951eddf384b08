-- An effect that a person decided and the other side refused: they are asked about it again.

alter table effects drop constraint effects_state_check;
alter table effects add constraint effects_state_check
    check (state in ('planned', 'started', 'done', 'failed', 'refused', 'unknown'));
alter table effects
    add column left_as text check (left_as in ('refused', 'unknown')),  -- as what the person said to leave it
    add column limited_since timestamptz,     -- the other side has taken no more since then
    add column lost_draft text;               -- what a draft is recognised by whose creation was not answered
create index effects_lost_drafts on effects (finished_at) where lost_draft is not null;

alter table inbox_items
    add column asked integer not null default 1,  -- the how manieth time the person is asked about its call
    add column asked_because text;                -- why it is asked again
