-- By itself, since nobody can store mail while a trigger is made: what was sent before it was.
insert into sent_to (account_id, gmail_id, user_id, at, people)
select account_id, gmail_id, user_id, received_at, people_of(content) from mails where own
on conflict do nothing;
