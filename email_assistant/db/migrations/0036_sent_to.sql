-- Whom a mailbox's own mail was sent to, apart from what that mail says: it is asked for with each proposal to somebody
-- new, and years of letters are read slowly. By a trigger, so that processes of the version before keep to it too.
create table sent_to (
    account_id uuid not null,
    gmail_id   text not null,
    user_id    uuid not null references users,
    at         timestamptz not null,
    people     jsonb not null,
    primary key (account_id, gmail_id),
    foreign key (account_id, gmail_id) references mails on delete cascade
);
create function people_of(content jsonb) returns jsonb language sql immutable as $$
    select coalesce(content->'to', '[]') || coalesce(content->'cc', '[]') || coalesce(content->'bcc', '[]')
$$;
create function tell_sent_to() returns trigger language plpgsql as $$
begin
    insert into sent_to (account_id, gmail_id, user_id, at, people)
    values (new.account_id, new.gmail_id, new.user_id, new.received_at, people_of(new.content))
    on conflict (account_id, gmail_id) do update set at = excluded.at, people = excluded.people;
    return null;
end
$$;
create trigger mails_sent_to after insert or update of own, content, received_at on mails for each row
    when (new.own) execute function tell_sent_to();
