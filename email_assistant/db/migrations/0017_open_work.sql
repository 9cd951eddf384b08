-- Work that is open, by account and conversation: so one conversation, or the first few of an account, are found
-- however much is open. Where it may be much, nothing else is in an index.

create index mails_new_of_account on mails (account_id, own, thread_id) where state = 'new';
create index mails_triaging_of_account on mails (account_id, thread_id) where state = 'triaging';
create index mails_put_away_of_account on mails (account_id, thread_id) where state = 'waiting' and put_away is not null;
create index mails_unshown on mails (account_id, triaged_at) where labelled is null and classification is not null;
create index mails_moved on mails (account_id, thread_id) where relabelled is not null;
create index runs_running on runs (account_id, thread_id) where state = 'running';
create index runs_acting on runs (account_id, thread_id) where state = 'acting';
create index runs_put_away on runs (account_id, thread_id) where closed_with is not null;
create index threads_with_drafts on threads (account_id, id) where drafted is not null;
create index left_drafts_open on left_drafts (account_id, thread_id) where state <> 'gone';
create index inbox_items_decided_of_account on inbox_items (account_id, thread_id) where status = 'decided';

-- The same by conversation alone, or by time alone.
drop index mails_new, mails_triaging, mails_put_away, mails_unlabelled, mails_relabelled, runs_closed_with,
    threads_drafted, left_drafts_there, inbox_items_decided;
