"""A file of a mail, saved on this machine."""

from pathlib import Path

from email_assistant.errors import AssistantError
from email_assistant.inbox.originals import Original


class NotKept(AssistantError):
    """It could not be written; the message says why."""


async def keep(mail: Original, number: int, folder: Path) -> Path:
    """Save a file of a mail in a folder, under its own name as far as that is harmless, and never over another. Returns
    where it is. Raises NoSuchFile, TooLarge, NoOriginal, NotKept."""
    file = mail.file(number)
    path = folder / file.safe_name
    content = await mail.content(file)
    try:
        with path.open("xb") as kept:
            kept.write(content)
    except FileExistsError:
        raise NotKept(f"{path} is there already; choose another folder") from None
    except OSError as error:
        raise NotKept(f"{path} can't be written: {error.strerror}") from None
    return path
