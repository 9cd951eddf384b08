"""A small Gmail, Google Calendar and OAuth token server, for demonstrations and tests.

It speaks the real protocols over HTTP, for one person, and keeps everything in one SQLite file. Run it with
`python -m email_assistant.servers.google_sandbox --data FILE`; `--help` explains the rest. It stands alone: it knows
nothing of the programs that talk to it, and sends nothing anywhere.

Known gaps, against Google's own services:

| area | Google | here |
|---|---|---|
| tokens | authorization code, PKCE, revocation, scopes per token | refresh grant only; every token has every scope |
| quota, faults | 429, 403 and 5xx under load | never |
| requests | `fields`, batch, media upload, ETags with If-Match | `fields` and If-Match ignored; the others 404 |
| push | users.watch and stop | 404 |
| deletion | messages.delete, batchDelete, threads.delete, trash and untrash | 404; drafts alone can be deleted |
| labels | patch, update, colours, visibility | list, get, create and delete; name and type only |
| history of deleted labels | not documented | none |
| settings | filters, forwarding, vacation, aliases | sendAs list and get, of the one address |
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
| calendars | many, shared | the primary one only |
| events | recurrence, conferences, invitations, move, quickAdd, import, watch, syncToken | recurrence 400, rest none |
| events.list | `q`, iCalUID, extended properties, updatedMin, eventTypes | refused with 400 |
| guests | get mail by sendUpdates and answer it | sendUpdates is checked and has no effect |
| freebusy | whether busy times are cut to the asked span: not documented | not cut |
| mbox labels | exported in the person's language | English names understood; others by From alone |
"""
