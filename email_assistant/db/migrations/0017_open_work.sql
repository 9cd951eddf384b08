-- Work that is open, by account and conversation, in place of by conversation alone: so one conversation, or the first
-- few of an account, are found however much is open. Tables in the order of `db/order.py`, each locked at once as hard
-- as it needs to be.

drop index threads_drafted;
create index threads_with_drafts on threads (account_id, id) where drafted is not null;

drop index inbox_items_decided;
create index inbox_items_undone_until on inbox_items (account_id, undo_until, thread_id) where status = 'decided';

drop index runs_closed_with;
create index runs_put_away on runs (account_id, thread_id) where closed_with is not null;
create index runs_running on runs (account_id, thread_id) where state = 'running';
create index runs_acting on runs (account_id, thread_id) where state = 'acting';

drop index mails_new, mails_triaging, mails_put_away, mails_unlabelled, mails_relabelled;
create index mails_new_of_account on mails (account_id, own, thread_id) where state = 'new';
create index mails_triaging_of_account on mails (account_id, thread_id) where state = 'triaging';
create index mails_put_away_of_account on mails (account_id, thread_id) where state = 'waiting' and put_away is not null;
create index mails_unshown on mails (account_id, triaged_at, thread_id)
    where labelled is null and classification is not null;
create index mails_moved on mails (account_id, thread_id) where relabelled is not null;

drop index left_drafts_there;
create index left_drafts_open on left_drafts (account_id, thread_id) where state <> 'gone';
