"""What there is to do before the assistant works on a person's own mail, and whether it is done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from email_assistant.accounts.account import Account
from email_assistant.settings import Settings


@dataclass(frozen=True, slots=True)
class FirstStep:
    title: str
    done: bool
    says: str
    """What is the case; of what is not done, what to do."""

    @property
    def line(self) -> str:
        return f"{'✓' if self.done else '○'} {self.title}: {self.says}"


def first_steps(settings: Settings, accounts: Sequence[Account]) -> list[FirstStep]:
    """Each of them; none once all are done. `accounts`: those that may be worked on here."""
    steps = list(_steps(settings, accounts))
    return [] if all(step.done for step in steps) else steps


def _steps(settings: Settings, accounts: Sequence[Account]) -> Iterator[FirstStep]:
    in_place = settings.mailbox_stand_in
    own = [account for account in accounts if account.state in ("active", "paused") and not in_place]
    connected = f"Connected: {', '.join(account.address for account in own)}"
    to_connect = "`email-assistant auth login --client-secret FILE` connects yours"
    yield FirstStep("Connect your mailbox", bool(own), connected if own else _instead_of(in_place, to_connect))
    in_place = settings.model_stand_in
    chosen = settings.has_model and not in_place
    read_by = f"{settings.model_for('triage')} reads your mail"
    to_choose = "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, or GOOGLE_API_KEY alone"
    yield FirstStep("Choose a model", chosen, read_by if chosen else _instead_of(in_place, to_choose))
    yield _trusting(own)
    if own:
        says = "On the page Memory: your role, tone and languages, which are read with every mail"
        yield FirstStep("Say who you are", all(account.introduced for account in own), says)


def _instead_of(stand_in: str, to_do: str) -> str:
    return f"{stand_in.rstrip('.')}. {to_do}" if stand_in else to_do


def _trusting(own: Sequence[Account]) -> FirstStep:
    title = "Watch it in shadow mode, then let it send"
    if trusted := next((account for account in own if account.mode != "shadow"), None):
        does = "does what you accept" if trusted.mode == "send" else "leaves drafts in Gmail"
        return FirstStep(title, True, f"For {trusted.address} it {does}")
    if not own:
        return FirstStep(title, False, "A new mailbox begins there: you see what would be done, and nothing is sent")
    to_end = f"`email-assistant account mode {own[0].address} send` ends it"
    return FirstStep(title, False, f"On: nothing is sent or changed in Gmail. When you like what you see, {to_end}")
