-- Who holds a lease on a conversation, so that one whose process has ended need not run out (`db/holder.py`).
-- Processes of the version before claim without naming a holder: the epoch says whether the one that stands here counts.

alter table threads
    add column holder bigint,                 -- the key of an advisory lock on a connection of the process that claimed
    add column holder_epoch bigint,           -- with this epoch
    add column cut_short bigint;              -- the last epoch whose lease was claimed before its term was over
create index threads_held on threads (holder) where holder is not null;

alter table effects add column last_started_at timestamptz;  -- started_at is the first time
alter table left_drafts add column last_started_at timestamptz;
