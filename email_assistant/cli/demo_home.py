"""The demo's own home: nothing of it stands among a person's own mail, and no key or token opens both."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from email_assistant.accounts.vault import keep_secret
from email_assistant.settings import DEMO, Settings

_APART: dict[str, Any] = {
    # A database of one's own is never the demo's: what a demo leaves there is hard to tell from one's mail.
    "database_url": None,
    "api_token": None,
    "agent_key": None,
    "mcp_token": None,
    "secret_key": None,
    # What reaches the person's own servers, or lets others in.
    "tools": None,
    "tool_permissions": None,
    "mcp_url": None,
    "mail_provider": None,
    "push_topic": None,
    "push_token": None,
}
_RUNNING = "running.json"
_NEVER_RAN: dict[str, Any] = {
    "google_root": "http://127.0.0.1:9",
    "google_name": f"{DEMO}:scripted",
    "mailbox_stand_in": "",
    "model": None,
}


def demo_settings(settings: Settings) -> Settings:
    """The demo's, as a command beside it needs them: where its mailbox and its model are, or were when it last ran."""
    found = settings.model_copy(update=_APART | {"home": settings.folder / "demo"})
    vars(found).pop("folder", None)  # a copy takes along what was cached of the other home
    return found.model_copy(update=_between(_last_run(found.folder), own_model=has_own_model(settings)))


def running_settings(
    settings: Settings, mailbox: Path, google: dict[str, Any], model: dict[str, Any] | None
) -> Settings:
    """The demo's while it runs, noted for the commands beside it. `settings`: what `demo_settings` gave; `google`,
    `model`: what the stand-ins said of themselves; no model: the person's own is asked."""
    run = {
        "google_root": google["root"],
        "google_name": f"{DEMO}:{mailbox.stem}",
        "mailbox_stand_in": google["says"],
        "model": model,
    }
    keep_secret(settings.folder / _RUNNING, json.dumps(run))
    return settings.model_copy(update=_between(run, own_model=model is None))


def has_own_model(settings: Settings) -> bool:
    """Whether the person has set a model, which the demo then asks."""
    return settings.has_model


def _between(run: dict[str, Any], *, own_model: bool) -> dict[str, Any]:
    changes = {name: run[name] for name in ("google_root", "google_name", "mailbox_stand_in")}
    if run["model"] is None or own_model:
        return changes
    return changes | {
        "openai_base_url": run["model"]["base_url"],
        "openai_api_key": SecretStr("demo"),
        "model": run["model"]["model"],
        "model_stand_in": run["model"]["says"],
        **dict.fromkeys(("model_triage", "model_response", "model_memory", "model_chat")),
    }


def _last_run(folder: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        run: dict[str, Any] = json.loads((folder / _RUNNING).read_text())
        return run
    return _NEVER_RAN
