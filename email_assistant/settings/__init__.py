"""Every setting of the program: from the environment, then from `.env` in the home folder or the file that is named.

Never from the current folder: whoever wrote what lies there would decide where tokens go, and which commands are run.
"""

import os
import stat
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar, get_args

from pydantic import AliasChoices, Field, PrivateAttr, SecretStr, model_validator

from email_assistant.settings.environment import ENV_FILE, FromEnvironment, Home, SettingsError, complaining, named_file
from email_assistant.settings.values import (
    Days,
    Hours,
    LongSecret,
    McpServer,
    Price,
    Root,
    Seconds,
    SecretInUrls,
    Topic,
    WebAddress,
    WorkingHours,
    is_on_this_machine,
)

AccountRole = Literal["triage", "response", "memory", "chat"]  # for which an account pays
T = TypeVar("T", bound=FromEnvironment)
Role = Literal[AccountRole, "pack"]  # an agent that has nothing to do with mail

GOOGLE: Final = "google"  # the provider of accounts at Google itself, which has a root for each of its services
ADDED: Final = "plugin:"  # before the name of a provider that another distribution adds
LOCAL_SERVER: Final = "loopback:"  # before the name of a server on this machine

GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai/"
"""Where Gemini speaks OpenAI's chat completions (https://ai.google.dev/gemini-api/docs/openai)."""
GEMINI_MODEL = "gemini-2.5-flash"
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
DEMO = "sandbox"  # what the names of the demo's mailboxes begin with, as `google_name`


class Settings(Home):
    """Those of the spine; features add theirs (`of`)."""

    _source: Path | None = PrivateAttr(None)

    database_url: str | None = Field(None, validation_alias=AliasChoices("DATABASE_URL", "database_url"))
    """A Postgres server of your own; unset: the embedded one, under `home`."""

    openai_api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("OPENAI_API_KEY", "openai_api_key"))
    openai_base_url: str | None = Field(None, validation_alias=AliasChoices("OPENAI_BASE_URL", "openai_base_url"))
    """Any server that speaks OpenAI's chat completions; unset: OpenAI."""
    google_api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("GOOGLE_API_KEY", "google_api_key"))
    """Key of Google's Gemini, which is used where neither of the two above is set."""
    model: str = "gpt-5-mini"
    """Model for every role that has none of its own."""
    model_triage: str | None = None
    model_response: str | None = None
    model_memory: str | None = None
    model_chat: str | None = None
    model_stand_in: str = ""
    """What answers in a language model's place, said on every page; empty: a language model."""
    model_timeout_seconds: Seconds = Field(90, gt=0)
    """Time-out of one model call."""
    model_probe_seconds: Seconds = Field(60, gt=0)
    """How long a model's server that refuses is left alone at first; then twice as long each time, up to ten times."""

    mail_provider: str | None = Field(None, pattern=r"[a-z][a-z0-9_-]*")
    """Another provider of mail than Google: the name under which an installed distribution adds it."""
    google_root: Root | None = None
    """Another server with Google's interface (Gmail at <root>/gmail/v1 and so on); unset: Google. Accounts are known by
    it, and their tokens sent to no other."""
    google_timeout_seconds: Seconds = Field(20, gt=0)
    """Total time of one request to Google, connecting and reading included."""
    google_name: str | None = None
    """Name of a server at `google_root` on this machine: its accounts are known by it, whatever its port is by now."""
    mailbox_stand_in: str = ""
    """What there is at `google_root` in a mailbox's place, said on every page; empty: mailboxes of people."""
    poll_seconds: Seconds = Field(20, gt=0)
    """How often each account is asked for new mail."""
    login_seconds: Seconds = Field(600, gt=0)
    """How long `auth login` waits for you to answer in the browser."""
    shadow: bool = True
    """Whether a mailbox that is connected for the first time begins in shadow mode."""
    backfill_days: Days = Field(14, ge=0)
    """Days of older mail that are stored, but not triaged, when an account is added."""
    gmail_units_per_minute: int | None = Field(None, ge=3500)
    """Quota of each mailbox, in Gmail's units; unset: Google's 6,000, and no limit at another server."""
    gmail_project_units_per_minute: int | None = Field(None, ge=3500)
    """Quota of all mailboxes of one OAuth client together; unset: Google's 1,200,000, and no limit elsewhere."""
    calendar_requests_per_minute: int | None = Field(None, ge=100)
    """Quota of each account's calendar; unset: Google's 600, and no limit elsewhere."""
    quota_units: dict[str, Annotated[int, Field(ge=0, le=500)]] = Field(default_factory=dict)
    """What methods cost where Google has changed it, as JSON by their ids: {"gmail.users.messages.get": 20}."""
    working_hours: Hours = "Mon-Fri 09:00-18:00"
    """When your free time may be offered, by each account's own timezone (`WorkingHours.parse`)."""
    busy_calendars: str = ""
    """Names or ids of calendars that belong to others and count as your time too, set apart by commas."""
    past_mail: bool = False
    """Whether what drafts your replies is shown letters that you sent, and may search the mail that is stored."""
    meet_links: bool = False
    """Whether the meetings that the assistant schedules have a Google Meet link."""
    push_topic: Topic | None = None
    """Your Pub/Sub topic to which Gmail tells of new mail, as projects/P/topics/T; unset: mailboxes are only polled."""
    push_token: SecretInUrls | None = None
    """Token in the URL to which Pub/Sub pushes."""

    labels: bool = True
    """Whether each mail's class is shown in Gmail as a label, and moving that label corrects the class."""
    label_respond: str = Field("Assistant/Respond", min_length=1)
    label_notify: str = Field("Assistant/Notify", min_length=1)
    label_ignored: str = Field("Assistant/Ignored", min_length=1)

    api_token: LongSecret | None = None
    """Token of the pages and the API; unset: made at first start and kept under `home`."""
    agent_key: LongSecret | None = None
    """Key of your agents, by which they ask the gate and do nothing else; unset: made at first start and kept."""
    mcp_token: SecretInUrls | None = None
    """Token of `mcp serve --http`, which opens nothing else; unset: made at first use and kept under `home`."""
    secret_key: SecretStr | None = None
    """Fernet key that encrypts the Google tokens in the database, or several set apart by commas, of which the first
    encrypts and each decrypts; unset: made at first use and kept under `home`."""

    inbox_url: WebAddress = "http://127.0.0.1:8765/"
    """Where you open the inbox, for the links in notices and digests; it holds no token."""

    tools: Path | None = None
    """Your file of tools and their servers, from `home` on; unset: tools.yaml there, if there is one."""
    tool_permissions: Path | None = None
    """Your file of what each tool touches, from `home` on; unset: tool_permissions.json there, if there is one."""
    mcp_url: McpServer | None = Field(None, validation_alias=AliasChoices("ASSISTANT_MCP_URL", "mcp_url"))
    """An MCP server that takes the place of our own for calendars."""

    undo_seconds: Seconds = Field(5, ge=0)
    """How long a decision can be taken back before it is acted on; 0: not at all."""
    undo_seconds_in_terminal: Seconds = Field(30, ge=0)
    """The same of a decision by a command, as another has to be typed to take it back; never less than `undo_seconds`,
    and 0 with that."""
    keep_checkpoints_days: Days = Field(0, ge=0)
    """Days for which LangGraph's checkpoints of a mail are kept that is done; 0: they go with its end."""
    keep_text_days: Days | None = Field(None, ge=1)
    """Days after which the text of a conversation that is done is taken out, and a chat deleted; unset: never."""
    keep_trail_days: Days | None = Field(None, ge=31)
    """Days after which all else of it is deleted, but for Gmail's ids; unset: never."""
    expire_days: Days | None = Field(None, ge=1)
    """Days after which what still waits is ignored by itself, and nothing is learned from it; unset: never."""
    concurrency: int = Field(32, ge=1)
    """Conversations worked on at once by one process, beside slots that serve decisions only; mailboxes are looked
    at on others."""
    lease_seconds: Seconds = Field(60, gt=0)
    """How long a worker that stopped answering keeps its conversation; one whose process has ended, some seconds."""
    sweep_seconds: Seconds = Field(5, gt=0)
    """How often forgotten work is looked for; the end of an undo window is known, and waits for no such look."""
    stop_seconds: Seconds = Field(10, ge=0)
    """How long what runs may go on after a signal to stop; then it is handed back."""
    max_steps: int = Field(12, ge=1)
    """Model calls that one run of the response agent may make."""
    max_tries: int = Field(6, ge=1)
    """Tries at one mail that fail, or that kill the process, before it is set aside as failed."""
    budget_tokens: int | None = Field(None, ge=0)
    """Tokens, of prompts and completions, that each account may use on a day of its own timezone; unset: any number."""
    budget_money: Decimal | None = Field(None, ge=0)
    """Money that each account may use on a day, by `prices`; unset: any sum."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Price of each model, as JSON: {"gpt-5-mini": {"prompt": 0.25, "completion": 2}}."""
    currency: str = Field("", max_length=10)
    """What stands behind sums of money, such as €: the currency of `prices`."""
    when_spent: Literal["wait", "rules"] = "wait"
    """What becomes of new mail when the budget is spent: it waits for midnight, or is sorted by its headers alone
    (automatic and bulk mail is ignored, all other mail is shown to you)."""
    replies_per_day: int = Field(10, ge=1)
    """Replies to one correspondent within 24 hours, after which mail from them is only shown (stops reply loops)."""
    tracing: Literal["off", "langfuse", "otel"] = "off"
    """Where the work on each mail is shown: Langfuse, with its text, or OpenTelemetry, without a word of it. The
    variables below turn nothing on."""
    otel_endpoint: str = Field(
        "http://localhost:4318", validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_ENDPOINT", "otel_endpoint")
    )
    langfuse_public_key: str | None = Field(
        None, validation_alias=AliasChoices("LANGFUSE_PUBLIC_KEY", "langfuse_public_key")
    )
    langfuse_secret_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("LANGFUSE_SECRET_KEY", "langfuse_secret_key")
    )
    langfuse_base_url: str = Field(
        "https://cloud.langfuse.com",
        validation_alias=AliasChoices("LANGFUSE_BASE_URL", "LANGFUSE_HOST", "langfuse_base_url"),
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "WARNING"
    log_format: Literal["text", "json"] = "text"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(None, ge=0, le=65535)
    """Where `worker` and `scheduler` serve /metrics and /ready, beside what `api` and `up` do; unset: nowhere."""

    @model_validator(mode="after")
    def _google_key_alone_means_gemini(self) -> Self:
        if self.google_api_key and self.openai_api_key is None and self.openai_base_url is None:
            self.openai_api_key, self.openai_base_url = self.google_api_key, GEMINI
            if "model" not in self.model_fields_set:
                self.model = GEMINI_MODEL
        return self

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for why in self._disagreements():
            raise ValueError(why)
        return self

    def _disagreements(self) -> Iterator[str]:
        """What settings do not go together."""
        if self.tracing == "langfuse" and not (self.langfuse_public_key and self.langfuse_secret_key):
            yield "EMAIL_ASSISTANT_TRACING=langfuse needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
        if (self.push_topic is None) != (self.push_token is None):
            yield "EMAIL_ASSISTANT_PUSH_TOPIC and EMAIL_ASSISTANT_PUSH_TOKEN need each other: set both"
        if self.mcp_token is not None and self.mcp_token == self.api_token:
            yield "EMAIL_ASSISTANT_MCP_TOKEN and EMAIL_ASSISTANT_API_TOKEN must be two: each opens its own"
        if self.agent_key is not None and self.agent_key == self.api_token:
            yield "EMAIL_ASSISTANT_AGENT_KEY and EMAIL_ASSISTANT_API_TOKEN must be two: an agent must not answer itself"
        if len({name.lower() for name in (self.label_respond, self.label_notify, self.label_ignored)}) < 3:
            yield (
                "EMAIL_ASSISTANT_LABEL_RESPOND, EMAIL_ASSISTANT_LABEL_NOTIFY and EMAIL_ASSISTANT_LABEL_IGNORED must "
                "be three different names"
            )
        # A worker may start a write only while its lease outlasts the write's deadline.
        if self.lease_seconds < 2 * self.google_timeout_seconds:
            yield "EMAIL_ASSISTANT_LEASE_SECONDS must be at least twice EMAIL_ASSISTANT_GOOGLE_TIMEOUT_SECONDS"
        if self.keep_trail_days is not None and self.keep_trail_days < (self.keep_text_days or 0):
            yield "EMAIL_ASSISTANT_KEEP_TRAIL_DAYS must not be less than EMAIL_ASSISTANT_KEEP_TEXT_DAYS"
        models = {self.model_for(role) for role in get_args(AccountRole)}
        if self.budget_money is not None and (unpriced := sorted(models - set(self.prices))):
            yield f"EMAIL_ASSISTANT_BUDGET_MONEY needs a price in EMAIL_ASSISTANT_PRICES for {', '.join(unpriced)}"

    @classmethod
    def load(cls) -> Self:
        """Read the settings. Raises SettingsError: a value can't be used."""
        with complaining():
            named = named_file()
            return cls._read(named) if named else cls._read_at_home()

    def of(self, kind: type[T]) -> T:
        """The settings that a feature adds, from where these come. Raises SettingsError."""
        with complaining():
            return kind(_env_file=self.env_file)

    @classmethod
    def _read_at_home(cls) -> Self:
        home = Home().home.expanduser()
        settings = cls._read(home / ENV_FILE)
        if settings.home.expanduser() != home:
            raise SettingsError(
                f"EMAIL_ASSISTANT_HOME: {home / ENV_FILE} can't name another folder than its own; set it in the "
                "environment, or in a file that --env-file names"
            )
        return settings

    @classmethod
    def _read(cls, file: Path) -> Self:
        try:
            settings = cls(_env_file=file)
        except UnicodeDecodeError:
            raise SettingsError(f"{file}: is not in UTF-8") from None
        settings._source = file
        return settings

    @property
    def env_file(self) -> Path:
        """The file that settings come from, if there is one of this name; those of the demo come from one's own."""
        return self._source or self.folder / ENV_FILE

    @property
    def unread_env_file(self) -> Path | None:
        """A `.env` in the current folder, which is not read; of it nothing is known but that it is there."""
        here = Path.cwd() / ENV_FILE if Path(ENV_FILE).exists() else None
        return here if here and not (self.env_file.exists() and here.samefile(self.env_file)) else None

    @property
    def key_variable(self) -> str:
        """The variable that the model's key comes from."""
        return "GOOGLE_API_KEY" if self.openai_base_url == GEMINI else "OPENAI_API_KEY"

    @property
    def has_model(self) -> bool:
        return self.openai_api_key is not None or self.openai_base_url is not None

    @property
    def stand_ins(self) -> str:
        """What is not the real thing, in sentences; "" for nothing."""
        return " ".join(f"{each.rstrip('.')}." for each in (self.mailbox_stand_in, self.model_stand_in) if each)

    @property
    def model_server(self) -> str:
        """What models are asked for at, as a person knows it."""
        return self.openai_base_url or "OpenAI"

    def model_for(self, role: Role) -> str:
        own: str | None = getattr(self, f"model_{role}", None)
        return own or self.model

    @cached_property
    def folder(self) -> Path:
        """`home` as an absolute path, made if it isn't there, readable by its owner only. One that was there is closed
        to others' writing, who could put a tools.yaml there and so have their commands run."""
        folder = self.home.expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.stat()
            if found.st_uid == os.getuid() and found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
                folder.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS_WRITE)
        except OSError as error:
            raise SettingsError(f"EMAIL_ASSISTANT_HOME: {folder} can't be made ({error.strerror})") from None
        return folder

    @property
    def hours(self) -> WorkingHours:
        return WorkingHours.parse(self.working_hours)

    @property
    def also_busy(self) -> list[str]:
        """Names or ids of calendars that count as the person's time besides their own."""
        return [name.strip() for name in self.busy_calendars.split(",") if name.strip()]

    @property
    def undo_window(self) -> timedelta:
        return timedelta(seconds=self.undo_seconds)

    @property
    def undo_window_in_terminal(self) -> timedelta:
        return self.undo_window and timedelta(seconds=max(self.undo_seconds, self.undo_seconds_in_terminal))

    @property
    def lifetime(self) -> timedelta | None:
        """How long an item may wait."""
        return timedelta(days=self.expire_days) if self.expire_days else None

    @property
    def class_labels(self) -> dict[Literal["respond", "notify", "ignore"], str]:
        """The name of each class's label in Gmail; empty if there are to be none."""
        if not self.labels:
            return {}
        return {"respond": self.label_respond, "notify": self.label_notify, "ignore": self.label_ignored}

    @property
    def gmail_user_limit(self) -> int | None:
        return self.gmail_units_per_minute or self._of_google(6_000)

    @property
    def gmail_project_limit(self) -> int | None:
        return self.gmail_project_units_per_minute or self._of_google(1_200_000)

    @property
    def calendar_user_limit(self) -> int | None:
        return self.calendar_requests_per_minute or self._of_google(600)

    def _of_google(self, limit: int) -> int | None:
        """A limit that holds for Google itself."""
        return None if self.google_root or self.mail_provider else limit

    @property
    def is_demo(self) -> bool:
        """Whether these are the demo's own, whose accounts are of mailboxes on this machine."""
        return is_of_demo(self.provider)

    @property
    def start_command(self) -> str:
        """What has the accounts worked on that this process may touch."""
        return "email-assistant demo" if self.is_demo else "email-assistant up"

    @property
    def provider(self) -> str:
        """Which accounts this process may touch: those of Google, or of the server at this root, or of the server of
        this name on this machine, or of a provider that another distribution adds. A login made for one is never sent
        to another."""
        if self.mail_provider:
            return f"{ADDED}{self.mail_provider}"
        if self.google_root is None:
            return GOOGLE
        if self.google_name and is_on_this_machine(self.google_root):
            return f"{LOCAL_SERVER}{self.google_name}"
        return self.google_root


def is_of_demo(provider: str) -> bool:
    return provider.startswith(f"{LOCAL_SERVER}{DEMO}:")
