"""Run the view to its end."""

from email_assistant.app import App
from email_assistant.cli.screen.app import InboxApp
from email_assistant.cli.screen.desk import Desk


async def show_inbox(app: App) -> None:
    """Raises whatever ended the view, other than the person."""
    view = InboxApp(Desk(app))
    await view.run_async()
    if view._exception is not None:
        raise view._exception
