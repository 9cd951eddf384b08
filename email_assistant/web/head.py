"""What every page says at its head, whatever it is about."""

import psycopg

from email_assistant.accounts.account import stopped
from email_assistant.web.dependencies import Assistant
from email_assistant.web.rendering import say_at_head, say_stand_ins, say_stopped


async def say_how_it_stands(app: Assistant) -> None:
    """Have the page say at its head what is not the real thing, and if everything is stopped, or nothing works on the
    mail."""
    say_stand_ins(app.settings.stand_ins)
    try:
        absence = await app.presence.absence()
        since = await app.accounts.stopped_since(app.user_id)
        own = await app.accounts.of_user(app.user_id) if absence or since else []
    except psycopg.Error:  # the page itself says what is wrong
        return
    zone = own[0].zone if own else None
    say_stopped(stopped(since, zone) if since else None)
    if absence:
        say_at_head(
            f"{absence.of_mail(zone)} What you answer is kept until then; an agent that asks is answered at once."
        )
