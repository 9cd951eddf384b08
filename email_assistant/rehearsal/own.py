"""The rehearsal on one's own mailbox: which of its mail teaches, and which is judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from email_assistant.rehearsal.recorded import NoHistory, Recorded
from email_assistant.rehearsal.report import Rehearsed, report
from email_assistant.rehearsal.walk import Progress, Walked, walk

MONTH: Final = timedelta(days=30.4)
USUAL_MONTHS: Final = 6
_TEACH: Final = 6 * MONTH
"""Of what is older than the mails that are judged, so much is read and learned from."""
_TO_DO: Final = "as far as your sent mail tells"


@dataclass(frozen=True, slots=True)
class Period:
    """The mails that are judged: those after a day, or of the last months; None and None: of the usual ones, or all if
    what is older teaches too little."""

    months: int | None = None
    until: datetime | None = None

    def since(self, now: datetime) -> datetime:
        """From when on mail is read: the same throughout a day."""
        judged_from = self.until or now - (self.months or USUAL_MONTHS) * MONTH
        return (judged_from.astimezone(UTC) - _TEACH).replace(hour=0, minute=0, second=0, microsecond=0)

    def begins(self, entries: Sequence[Recorded]) -> datetime:
        """After this time mails are judged. The months are those before the last mail, as of a file."""
        return self.until or entries[-1].at - (self.months or USUAL_MONTHS) * MONTH


def rehearsed(
    entries: Sequence[Recorded], own: frozenset[str], period: Period, progress: Progress = lambda _: None
) -> tuple[Walked, Rehearsed]:
    """Walk what was read of a mailbox. Raises NoHistory."""
    if not entries:
        raise NoHistory("there is no mail in the mailbox from that time: give more --months, or wait until there is")
    if not any(entry.own for entry in entries):
        raise NoHistory(
            f"of the {len(entries):,} mails from that time none was sent by you: without your own answers there is "
            "nothing to rehearse; give more --months, or the address that you write from with --account"
        )
    walked = walk(entries, own, period.begins(entries), progress)
    if period == Period() and not any(each.by_threshold for each in walked.judged):
        whole = walk(entries, own, None, progress)
        if walked.classifier is None or any(each.by_threshold for each in whole.judged):
            walked = whole
    return walked, report(walked, own, _TO_DO)
