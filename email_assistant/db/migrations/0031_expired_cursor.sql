-- What is asked where Gmail has forgotten a mailbox's cursor, however much mail is stored.

create index mails_waiting on mails (account_id, received_at, gmail_id) where state = 'waiting';

-- When the mail came whose going closed a run: the oldest is asked for, of however many. By a trigger, so that processes
-- of the version before keep to it too.
alter table runs add column closed_mail_at timestamptz;
create function tell_closed() returns trigger language plpgsql as $$
begin
    new.closed_mail_at := (select received_at from mails
                           where account_id = new.account_id and gmail_id = new.closed_with);
    return new;
end
$$;
create trigger runs_closed before update of closed_with on runs for each row
    when (new.closed_with is distinct from old.closed_with) execute function tell_closed();
update runs r set closed_mail_at = m.received_at from mails m
    where m.account_id = r.account_id and m.gmail_id = r.closed_with;
create index runs_closed_by_time on runs (account_id, closed_mail_at) where closed_with is not null;
create index runs_closed_with on runs (account_id, closed_with) where closed_with is not null;
