"""A small Gmail, Google Calendar and OAuth token server, for demonstrations and tests.

It speaks the real protocols over HTTP, for one person, and keeps everything in one SQLite file. Run it with
`python -m email_assistant_servers.google_sandbox --data FILE`; `--help` explains the rest. It stands alone: it knows
nothing of the programs that talk to it, and sends nothing anywhere.

Known gaps, against Google's own services:

| area | Google | here |
|---|---|---|
| consent | sign-in, many accounts, many clients, consent kept from before | one person, one client, asked each time |
| consent in part | what nothing ticked comes to: not documented | a login without scopes |
| grants | S256 and plain, or no PKCE; web servers, devices, service accounts | S256, for installed apps; refresh |
| revocation | takes a while to reach every server | at once |
| scopes per method | as the discovery documents list them | by the first part of the path |
| quota, faults | 429, 403 and 5xx under load | never |
| requests | `fields`, batch, media upload, ETags with If-Match | `fields` and If-Match ignored; the others 404 |
| push | users.watch has changes published to Pub/Sub | checked and answered; nothing is published |
| deletion | messages.delete, batchDelete, threads.delete, trash and untrash | 404; drafts alone can be deleted |
| labels | patch, update, colours, visibility | list, get, create and delete; name and type only |
| history of deleted labels | not documented | none |
| settings | filters, forwarding, vacation | sendAs list, get, create and delete; the default is the own address |
| sendAs | asks for a verification where it must | those of the own domain are verified, others never are |
| search | many more operators, word stems, words without spaces between | those in search.py; lacking ones get 400 |
| search, ages | calendar months and years | a month is 30 days, a year 365 |
| body data | comes as UTF-8 under the old charset header (reported, not documented) | as in the mail |
| headers | whether encoded words are decoded: not documented | as in the mail |
| trash | effect on INBOX not documented | trash takes INBOX away, untrash does not bring it back |
| history `labelId` | before or after the change: not documented | matches labels after the change, and changed ones |
| history records | one may hold several changes | one change to one message |
| history start | ids from the future: not documented | 404, like one that is too old |
| sending | mail to oneself comes in; bounces; size limits | none of these; only scripted people ever answer |
| drafts | rewritten headers: not documented | Message-ID is rewritten on sending only |
| threads | groups incoming mail by its own rules | by In-Reply-To and References, or X-GM-THRID on import |
| import | spam filter, calendar processing | none; labels as given |
| calendars | shared with and by others, with access roles; delete, clear, subscribing | all are the person's own; 404 |
| calendarList | many settings; whether a new calendar is ticked: not documented | selected and hidden; not ticked |
| events | recurrence, invitations, move, quickAdd, import, watch, syncToken | recurrence 400, rest none |
| conferences | made at once or later, copied, changed | made at once on insert; the link leads nowhere |
| events.list | `q`, iCalUID, extended properties, updatedMin, eventTypes | refused with 400 |
| guests | get mail by sendUpdates and answer it | sendUpdates is checked and has no effect |
| freebusy | whether busy times are cut to the asked span: not documented | not cut |
| mbox labels | exported in the person's language | English names understood; others by From alone |
"""
