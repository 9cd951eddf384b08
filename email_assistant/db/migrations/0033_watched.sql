-- What /metrics counts, however much is finished: mail that is not, and what was done outside, by how it stands.
create index mails_unfinished on mails (state, classification) where state <> 'done';
create index effects_by_state on effects (state, finished_at);
