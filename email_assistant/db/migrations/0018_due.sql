-- When open work comes due, beside it: what backs off, or waits for the person, is passed over by the index, however
-- much of it there is. Tables in the order of `db/order.py`, each locked at once as hard as it needs to be.

drop index threads_with_drafts;
create index threads_drafted_due on threads (account_id, not_before, id) where drafted is not null;

-- `not_before` and `label_after` are never later than the conversation's own, but may be earlier, as they are where a
-- row was made while that one backed off.
alter table inbox_items add column not_before timestamptz not null default '-infinity';
drop index inbox_items_undone_until;
create index inbox_items_due on inbox_items (account_id, greatest(undo_until, not_before), thread_id)
    where status = 'decided';

alter table runs add column not_before timestamptz not null default '-infinity';
drop index runs_running, runs_acting;
create index runs_running_due on runs (account_id, not_before, thread_id) where state = 'running';
create index runs_acting_due on runs (account_id, not_before, thread_id) where state = 'acting';

alter table mails
    add column not_before timestamptz not null default '-infinity',
    add column label_after timestamptz not null default '-infinity';
drop index mails_new_of_account, mails_triaging_of_account, mails_put_away_of_account, mails_unshown, mails_moved;
create index mails_new_due on mails (account_id, own, not_before, thread_id) where state = 'new';
create index mails_triaging_due on mails (account_id, not_before, thread_id) where state = 'triaging';
create index mails_put_away_due on mails (account_id, not_before, thread_id)
    where state = 'waiting' and put_away is not null;
create index mails_unshown_due on mails (account_id, label_after, triaged_at, thread_id)
    where labelled is null and classification is not null;
create index mails_moved_due on mails (account_id, label_after, thread_id) where relabelled is not null;

alter table left_drafts
    add column not_before timestamptz not null default '-infinity',
    add column waits boolean not null default false;  -- its proposal still waits for the person
update left_drafts d set waits = true where exists (
    select from inbox_items i where i.run_id = d.run_id and i.call_id = d.call_id and i.status in ('pending', 'decided'));
create index left_drafts_due on left_drafts (account_id, not_before, thread_id)
    where state in ('wanted', 'started') or state in ('left', 'ending') and not waits;

-- By triggers, so that processes of the version before keep to it too.

create function hold_back() returns trigger language plpgsql as $$
declare
    labels timestamptz := greatest(new.not_before, new.label_after);
begin
    update inbox_items set not_before = new.not_before where id in (
        select id from inbox_items
        where run_id in (select id from runs where thread_id = new.id) and not_before <> new.not_before
        and (status = 'decided' or not_before > new.not_before) order by id for no key update);
    update runs set not_before = new.not_before
        where thread_id = new.id and not_before <> new.not_before
        and (state in ('running', 'acting') or not_before > new.not_before);
    update mails set not_before = new.not_before, label_after = labels
        where thread_id = new.id and (not_before, label_after) <> (new.not_before, labels)
        and (state in ('new', 'triaging', 'waiting') or labelled is null or relabelled is not null
             or not_before > new.not_before or label_after > labels);
    update left_drafts set not_before = new.not_before
        where account_id = new.account_id and thread_id = new.id and not_before <> new.not_before
        and (state <> 'gone' or not_before > new.not_before);
    return null;
end
$$;
create trigger threads_hold_back after update on threads for each row
    when ((new.not_before, new.label_after) is distinct from (old.not_before, old.label_after))
    execute function hold_back();

create function left_draft_made() returns trigger language plpgsql as $$
begin
    new.waits := exists (select from inbox_items where run_id = new.run_id and call_id = new.call_id
                         and status in ('pending', 'decided'));
    return new;
end
$$;
create trigger left_drafts_made before insert on left_drafts for each row execute function left_draft_made();

create function tell_left_draft() returns trigger language plpgsql as $$
begin
    update left_drafts set waits = exists (select from inbox_items where run_id = new.run_id and call_id = new.call_id
                                           and status in ('pending', 'decided'))
        where run_id = new.run_id and call_id = new.call_id;
    return null;
end
$$;
create trigger inbox_items_open_tell_draft after insert on inbox_items for each row
    when (new.status in ('pending', 'decided')) execute function tell_left_draft();
create trigger inbox_items_end_tell_draft after update on inbox_items for each row
    when ((new.status in ('pending', 'decided')) <> (old.status in ('pending', 'decided')))
    execute function tell_left_draft();
