-- What the person's own letters are found by, as those of others are.
create index mails_own_words on mails using gin (mail_words(sender, subject, content)) where own;
create index past_mails_own_words on past_mails
    using gin (mail_words('', coalesce(content->>'subject', ''), content)) where 'SENT' = any(labels);
create index past_mails_written_to on past_mails using gin (recipients_of(content)) where 'SENT' = any(labels);
