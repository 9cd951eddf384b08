"""`email-assistant stop` and `go-on`"""

from email_assistant.cli.context import awaited, here, opened, say


@awaited
async def stop() -> None:
    """Stop everything: for no mailbox anything is sent, booked or changed any more, whichever process would do it.

    What is on its way at this moment ends, and is recorded. What you answer meanwhile is kept. `go-on` ends it."""
    from email_assistant.accounts.account import stopped

    async with opened() as app:
        await app.accounts.stop(app.user_id)
        since = await app.accounts.stopped_since(app.user_id)
    if since:
        say(here(f"{stopped(since)} `email-assistant go-on` ends that."))


@awaited
async def go_on() -> None:
    """Go on after `stop`: what was accepted meanwhile is done. A mailbox that you had paused stays paused."""
    async with opened() as app:
        await app.queue.poll(await app.accounts.go_on(app.user_id))
        resting = [a.address for a in await app.accounts.of_user(app.user_id) if a.state == "paused"]
    say("It goes on." + (f" Still paused, as before: {', '.join(resting)}." if resting else ""))
