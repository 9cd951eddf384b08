-- What the person's own letters are found by, as those of others are.
create index mails_own_words on mails using gin (mail_words(sender, subject, content)) where own;
