"""Labels for classes that came onto mail, by Gmail's history."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from email_assistant.accounts.accounts import Account
from email_assistant.db.pool import Connection
from email_assistant.google.gmail import Change
from email_assistant.inbox.mails import Class


def moved(account: Account, names: Mapping[Class, str], changes: Iterable[Change]) -> dict[str, Class]:
    """By message, the class whose label was put on it last.

    Args:
        names: the label of each class.
    """
    classes = {account.labels[name]: each for each, name in names.items() if name in account.labels}
    return {
        change.message_id: classes[label_id]
        for change in changes
        if change.kind == "labels_added"
        for label_id in change.labels & classes.keys()
    }


async def suspect(conn: Connection, account_id: UUID, labels: Mapping[str, Class]) -> set[UUID]:
    """Note labels that may have been put on by the person, in the caller's transaction, to be looked at.

    Where we are about to set a label, or have set this one, it is our own.

    Returns:
        The conversations that they are in.
    """
    cursor = await conn.execute(
        """update mails m set relabelled = seen.class
           from unnest(%s::text[], %s::text[]) as seen (gmail_id, class)
           where m.account_id = %s and m.gmail_id = seen.gmail_id
           and m.labelled <> 'none' and m.labelled <> seen.class
           returning m.thread_id""",
        (list(labels), list(labels.values()), account_id),
    )
    return {row["thread_id"] for row in await cursor.fetchall()}
