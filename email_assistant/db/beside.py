"""Which mail waits with the run of another one, as SQL: of mails `m` and runs `r`."""

# A mail that asks less than the one that a run answers, and that somebody else wrote, or a program, waits with that
# run. What the person had answered asks for an answer, whatever it was taken for.
_ASKS_LESS = """m.classification = 'notify' and exists (
    select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id
    and (its.sender <> m.sender
         or its.gmail_id <> m.gmail_id and 'true' in (m.content->>'auto_submitted', m.content->>'bulk'))
    and (its.classification = 'respond'
         or exists (select from inbox_items i where i.run_id = r.id and i.kind <> 'notification')))"""
# So does one of a stranger that came later: nobody whom the person has ever written to, and who had no part in the
# conversation before.
_STRANGERS = """m.classification = 'respond' and m.triaged_at > r.created_at
    and exists (select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id
                and its.sender <> m.sender)
    and not exists (select from mails o where o.account_id = m.account_id and o.own
                    and recipients_of(o.content) @> array[m.sender])
    and not exists (select from asked_recipients a where a.account_id = m.account_id and a.address = m.sender
                    and a.written)
    and not exists (select from mails o where o.thread_id = m.thread_id and o.gmail_id <> m.gmail_id
                    and (o.received_at, o.gmail_id) < (m.received_at, m.gmail_id)
                    and (o.sender = m.sender or recipients_of(o.content) @> array[m.sender]))"""
# But only while all is decided: nobody who is let into a conversation can stop what the person has said is to be done.
_ALL_DECIDED = """exists (select from inbox_items i where i.run_id = r.id and i.status = 'decided'
            and i.decision->>'type' in ('accept', 'edit'))
    and not exists (select from inbox_items i where i.run_id = r.id and i.status = 'pending')"""
BESIDE = f"({_ASKS_LESS} or {_STRANGERS} and {_ALL_DECIDED})"
# At the end of the run it has been told if it stood beside what the person approved, and that was sent.
UNTOLD = f"""({_STRANGERS} or {_ASKS_LESS} and not exists (
    select from effects e join inbox_items i on i.run_id = e.run_id and i.call_id = e.call_id
    where e.run_id = r.id and e.state = 'done' and e.recipient is not null and i.decided_at > m.triaged_at))"""
# Nor has it been answered if somebody else asked for it than whom the run answers, and no letter of it reached them.
UNREACHED = """m.classification = 'respond' and exists (
    select from mails its where its.account_id = r.account_id and its.gmail_id = r.mail_id and its.sender <> m.sender)
    and not exists (select from effects e where e.run_id = r.id and e.state = 'done' and e.recipient is not null
                    and addresses_in(e.args) @> array[m.sender])"""
