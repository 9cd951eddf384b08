"""What every page says at its head, whatever it is about."""

import psycopg

from email_assistant.accounts.account import stopped
from email_assistant.web.dependencies import Assistant
from email_assistant.web.rendering import say_at_head, say_stand_ins, say_stopped


async def say_how_it_stands(app: Assistant) -> None:
    """Have the page say at its head what is not the real thing, and if everything is stopped, nothing works on the
    mail, or a model's server refuses."""
    say_stand_ins(app.settings.stand_ins)
    try:
        absence = await app.presence.absence()
        since = await app.accounts.stopped_since(app.user_id)
        refusing = await app.model_servers.standing(app.settings.model_server)
        own = await app.accounts.of_user(app.user_id) if absence or since or refusing else []
    except psycopg.Error:  # the page itself says what is wrong
        return
    zone = own[0].zone if own else None
    say_stopped(stopped(since, zone) if since else None)
    if absence:
        say_at_head(
            f"{absence.of_mail(zone)} What you answer is kept until then; an agent that asks is answered at once."
        )
    elif refusing:
        say_at_head(" ".join(each.sentence(zone) for each in refusing))
