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
    logged_in = [account for account in accounts if account.state in ("active", "paused")]
    own = [] if settings.mailbox_stand_in else logged_in
    addresses = ", ".join(account.address for account in own)
    log_in = "`email-assistant auth login --client-secret FILE` connects yours"
    instead = f"{settings.mailbox_stand_in.rstrip('.')}. " if settings.mailbox_stand_in else ""
    yield FirstStep("Connect your mailbox", bool(own), f"{addresses} is connected" if own else f"{instead}{log_in}")
    instead = f"{settings.model_stand_in.rstrip('.')}. " if settings.model_stand_in else ""
    has_model = settings.has_model and not instead
    to_set = "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, or GOOGLE_API_KEY alone"
    yield FirstStep(
        "Choose a model", has_model, f"{settings.model} reads your mail" if has_model else f"{instead}{to_set}"
    )
    yield _trusting(own)


def _trusting(own: Sequence[Account]) -> FirstStep:
    title = "Watch it in shadow mode, then let it send"
    if sending := [account for account in own if account.mode != "shadow"]:
        begins = "has drafts made" if all(account.mode == "draft" for account in sending) else "sends"
        return FirstStep(title, True, f"{sending[0].address} {begins} as you accept them")
    if not own:
        return FirstStep(title, False, "A new mailbox begins there: you see what would be done, and nothing is sent")
    to_end = f"`email-assistant account mode {own[0].address} send` ends it"
    return FirstStep(title, False, f"On: nothing is sent or changed in Gmail. When you like what you see, {to_end}")
