"""A small Gmail, Google Calendar and OAuth token server, for demonstrations and tests.

It speaks the real protocols over HTTP, for one person, and keeps everything in one SQLite file. Run it with
`python -m email_assistant_servers.google_sandbox --data FILE`; `--help` explains the rest. It stands alone: it knows
nothing of the programs that talk to it, and sends nothing anywhere. README.md
beside this says what it lacks of Google's own services.
"""
