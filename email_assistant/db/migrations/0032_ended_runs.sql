-- What is kept of the checkpoints of mail that is done goes too, not only all but the last.
update runs set pruned = false
where pruned and mail_id is not null and closed_with is null and state in ('done', 'superseded');
