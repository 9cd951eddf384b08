"""The composition root: opens database, queue, clients and graph; everything else is handed what it needs."""

import logging
import secrets
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from cryptography.fernet import Fernet

from email_assistant.accounts.accounts import Account, Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.accounts.sessions import Sessions
from email_assistant.accounts.vault import Vault, VaultError, keep_secret, kept_secret
from email_assistant.db.embedded import EmbeddedPostgres
from email_assistant.db.holder import Holder
from email_assistant.db.migrate import migrate
from email_assistant.db.pool import Pool, make_pool, named_in
from email_assistant.db.presence import Presence
from email_assistant.gate.labels import Labels, read_labels, shipped_labels
from email_assistant.gate.source import Source
from email_assistant.google.quota import Limits
from email_assistant.inbox.items import Inbox
from email_assistant.inbox.mails import Class, Mails
from email_assistant.inbox.recipients import Recipients
from email_assistant.notify.channels import Channels
from email_assistant.notify.digest import Digests
from email_assistant.notify.notices import Notices
from email_assistant.notify.outward import Outward
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.entry import Effect
from email_assistant.outgoing.keyed import KeyedOutbox
from email_assistant.settings import Settings, WorkingHours
from email_assistant.tools.config import SHIPPED, ToolsConfig, read_tools
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.spec import Call, ServerDown, Tool, ToolError
from email_assistant.tracing import keep_langsmith_off
from email_assistant.usage import Usage
from email_assistant.work.tasks import Queue

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from mcp.server.lowlevel import Server

    from email_assistant.memory.profiles import Memory
    from email_assistant.model import Models
    from email_assistant.tools.catalogue import Catalogue
    from email_assistant.tools.mcp.pool import Builtin, Servers
    from email_assistant.tools.overview import Overview
    from email_assistant.tools.registry import Registry
    from email_assistant.work.chat import Chat
    from email_assistant.work.removal import Removal

log = logging.getLogger(__name__)

_DATABASE = "email_assistant"
_KEEP_SECONDS = 0.5


class DatabaseDown(RuntimeError):
    """The database can't be reached; the message says what to do."""


@dataclass(frozen=True)
class Toolbox:
    """The tools, and the servers that some of them run on."""

    mail: "Registry"
    """The mail agent's."""
    chat: "Catalogue"
    overview: "Overview"
    """Of all tools, for the person."""
    servers: "Servers"


@dataclass(frozen=True)
class App:
    """What every command and every page works with."""

    settings: Settings
    tools_config: ToolsConfig
    labels: Mapping[str, Labels]
    """What each tool touches."""
    pool: Pool
    holder: Holder
    """This process, as a holder of leases."""
    presence: Presence
    """Whether any process works."""
    queue: Queue
    accounts: Accounts
    clients: Clients
    ledger: Ledger
    outbox: KeyedOutbox
    inbox: Inbox
    recipients: Recipients
    mails: Mails
    usage: Usage
    channels: Channels
    notices: Notices
    digests: Digests
    sessions: Sessions
    """The browsers that are logged in."""
    user_id: UUID
    """The one implicit user of a home installation."""

    @cached_property
    def toolbox(self) -> Toolbox:
        """Put together at first use: what it takes to import is more than all else that most commands do."""
        return _fill_toolbox(self)

    @cached_property
    def models(self) -> "Models":
        """Loaded at first use, as the toolbox is."""
        from email_assistant.model import Models

        return Models(self.settings, self.usage, self.accounts)

    @property
    def tools(self) -> "Registry":
        """The mail agent's."""
        return self.toolbox.mail

    @property
    def catalogue(self) -> "Catalogue":
        """Chat's."""
        return self.toolbox.chat

    @property
    def overview(self) -> "Overview":
        """Of all tools, for the person."""
        return self.toolbox.overview

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call checked with the tools of the agent that proposed it. Raises ToolError."""
        tools = self.catalogue if run.get("agent") == "chat" else self.tools
        try:
            return await tools.complete(run, name, arguments)
        except ServerDown as down:
            raise ToolError(str(down)) from None

    async def aclose(self) -> None:
        """Leave what was opened meanwhile."""
        if "toolbox" in self.__dict__:
            await self.toolbox.servers.aclose()
        if "models" in self.__dict__:
            await self.models.aclose()
        await self.clients.aclose()
        await self.holder.aclose()


@contextmanager
def database(settings: Settings, *, keep: bool) -> Iterator[str]:
    """The URL of a database that is there: `DATABASE_URL`, or the embedded server's, started or joined.

    Args:
        keep: start the embedded server again whenever its owner has left, for as long as the block lasts.

    Raises:
        EmbeddedError, DatabaseDown.
    """
    if settings.database_url:
        yield settings.database_url
        return
    with EmbeddedPostgres(settings.folder / "postgres") as server:
        _create_database(server.url())
        with _kept(server) if keep else nullcontext():
            yield server.url(_DATABASE)


@asynccontextmanager
async def open_app(settings: Settings, url: str, *, patience: float | None = None) -> AsyncIterator[App]:
    """Open everything that every command needs; the schema is brought up to date first.

    Args:
        patience: seconds to wait while another process does that; None: as long as it takes.

    Raises:
        DatabaseDown, VaultError, BadFile, UnusableDatabase.
    """
    config, labels = tool_files(settings)
    try:
        await migrate(url, patience=patience)
    except psycopg.errors.LockNotAvailable:
        raise
    except psycopg.OperationalError as error:
        reason = str(error).strip().partition("\n")[0]
        raise DatabaseDown(f"the database can't be used: {reason}; check {named_in()}") from None
    async with make_pool(url, size=20, idle_seconds=settings.lease_seconds) as pool:
        queue = Queue(pool, url)
        await queue.open()
        vault = Vault(secret_key(settings))
        accounts = Accounts(pool, vault, settings.provider)
        limits = Limits(
            user=settings.gmail_user_limit,
            project=settings.gmail_project_limit,
            calendar=settings.calendar_user_limit,
            units=settings.quota_units,
        )
        clients = Clients(
            pool,
            accounts,
            root=settings.google_root,
            timeout=settings.google_timeout_seconds,
            limits=limits,
            busy_calendars=settings.also_busy,
        )
        ledger = Ledger(pool, settings.google_timeout_seconds)
        user_id = await accounts.home_user()
        outbox = KeyedOutbox(ledger)
        mails = Mails(pool, enqueue=queue.decided)

        async def complete(run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return await app.complete(run, name, arguments)

        inbox = Inbox(
            pool,
            enqueue=queue.decided,
            complete=complete,
            undo_window=settings.undo_window,
            lifetime=settings.lifetime,
        )
        usage = Usage(pool, settings)
        outward = Outward(private=settings.notify_private)
        channels = Channels(pool, vault, settle=settings.notify_settle, every=settings.notify_every)
        notices = Notices(
            channels,
            accounts,
            outward,
            inbox_url=settings.inbox_url,
            contact=settings.notify_contact,
            show_mail=settings.notify_show_mail,
        )
        digests = Digests(
            pool,
            accounts,
            clients,
            outbox,
            at=settings.digest_at,
            inbox_url=settings.inbox_url,
            claim=timedelta(seconds=settings.lease_seconds),
        )
        holder = Holder(url)
        app = App(
            settings,
            config,
            labels,
            pool,
            holder,
            Presence(pool, holder, settings.provider, settings.start_command),
            queue,
            accounts,
            clients,
            ledger,
            outbox,
            inbox,
            Recipients(pool, clients),
            mails,
            usage,
            channels,
            notices,
            digests,
            Sessions(pool, secret_key(settings)),
            user_id,
        )
        try:
            yield app
        finally:
            await app.aclose()
            await outward.aclose()
            await queue.close()


def open_memory(app: App) -> "Memory":
    """The learned preferences."""
    from email_assistant.memory.profiles import Memory

    return Memory.kept_in(app.pool)


def open_chat(app: App, callbacks: "Sequence[BaseCallbackHandler]" = ()) -> "Chat":
    """The chat agent, and the chats that it carries on.

    Args:
        callbacks: who is told of each run, as `tracing` gives them.
    """
    from email_assistant.agents.chat.graph import ChatAgent
    from email_assistant.db.checkpoints import FencedSaver
    from email_assistant.tools.heard import Heard
    from email_assistant.work.chat import Chat
    from email_assistant.work.invoke import Invoker
    from email_assistant.work.turns import Turns

    keep_langsmith_off()
    settings = app.settings
    agent = ChatAgent(
        app.accounts,
        app.clients,
        open_memory(app),
        app.models,
        app.catalogue,
        app.ledger,
        Heard(app.pool),
        settings.max_steps,
    )
    return Chat(
        app.pool,
        Turns(app.pool),
        app.inbox,
        app.recipients,
        app.ledger,
        app.accounts,
        app.clients,
        app.catalogue,
        Invoker(agent.graph(FencedSaver(app.pool)).with_config(callbacks=list(callbacks)), app.inbox),
        settings.lease_seconds,
        app.holder,
        settings.max_tries,
    )


def removal(app: App, account: Account) -> "Removal":
    """What forgets an account of whatever provider."""
    from email_assistant.work.conversations import Conversations
    from email_assistant.work.removal import Removal

    async def settle(call: Call, effect: Effect) -> None:
        tools = app.catalogue if call.run.get("agent") == "chat" else app.tools
        await tools.settle(call, effect)

    return Removal(
        app.pool,
        app.accounts,
        app.clients,
        app.ledger,
        settle,
        Conversations(app.pool, account.provider, app.holder),
        app.settings.lease_seconds,
        app.holder,
    )


def class_labels(settings: Settings) -> dict[Class, str]:
    """The name of each class's label in Gmail; empty if there are to be none."""
    if not settings.labels:
        return {}
    return {"respond": settings.label_respond, "notify": settings.label_notify, "ignore": settings.label_ignored}


def tool_files(settings: Settings) -> tuple[ToolsConfig, Mapping[str, Labels]]:
    """The tools that there are, and what each touches: the person's files over what is shipped.

    Raises:
        BadFile.
    """
    tools = _source(settings, "tools", "tools.yaml")
    permissions = _source(settings, "tool_permissions", "tool_permissions.json")
    config = read_tools(tools) if tools else SHIPPED
    if settings.mcp_url:
        config = config.with_calendar_at(settings.mcp_url)
    return config, read_labels(permissions) if permissions else shipped_labels()


def _source(settings: Settings, setting: str, name: str) -> Source | None:
    """A file that a setting names, or that stands under `home`; None: there is none. Raises BadFile."""
    named: Path | None = getattr(settings, setting)
    if named is not None:
        return Source.read(settings.folder / named.expanduser())
    path = settings.folder / name
    return Source.read(path) if path.exists() else None


def _fill_toolbox(app: App) -> Toolbox:
    from email_assistant.tools.catalogue import Catalogue
    from email_assistant.tools.flipped import placed
    from email_assistant.tools.mcp.pool import Servers
    from email_assistant.tools.mcp.seen import SeenTools
    from email_assistant.tools.overview import Overview
    from email_assistant.tools.registry import Registry

    config, labels, ledger = app.tools_config, app.labels, app.ledger
    seen = SeenTools(app.pool, app.user_id)
    own = own_servers(app.accounts, app.clients, app.outbox, app.settings)
    servers = Servers(config.servers, own, seen.look, app.settings.folder)
    local = chat_tools(app.pool, app.accounts, app.clients, ledger, app.inbox, app.mails)
    return Toolbox(
        Registry(
            placed(tool, config, labels, servers, ledger) for tool in mail_tools(ledger, app.accounts, app.settings)
        ),
        Catalogue(config, labels, local, servers, ledger, partial(Mailbox, app.accounts, app.clients)),
        Overview(config, labels, servers, seen, app.user_id),
        servers,
    )


def own_servers(accounts: Accounts, clients: Clients, outbox: KeyedOutbox, settings: Settings) -> "Builtin":
    """Our own MCP servers, by name, each for one account."""

    async def calendar(account_id: UUID) -> "Server[Any, Any]":
        from email_assistant.tools.own.calendar import create_calendar_server

        return create_calendar_server(Mailbox(accounts, clients, account_id), meet=settings.meet_links)

    async def mail(account_id: UUID) -> "Server[Any, Any]":
        from email_assistant.tools.own.mail import create_mail_server

        return create_mail_server(Mailbox(accounts, clients, account_id), outbox)

    async def agent(account_id: UUID) -> "Server[Any, Any]":
        from email_assistant.tools.own.agent import create_agent_server

        hours = WorkingHours.parse(settings.working_hours)
        return create_agent_server(Mailbox(accounts, clients, account_id), outbox, hours, meet=settings.meet_links)

    return {"calendar": calendar, "mail": mail, "agent": agent}


def mail_tools(ledger: Ledger, accounts: Accounts, settings: Settings) -> list[Tool]:
    """The mail agent's tools, as they run here."""
    from email_assistant.tools.check_calendar import CheckCalendarTool
    from email_assistant.tools.control import DoneTool, QuestionTool
    from email_assistant.tools.schedule_meeting import ScheduleMeetingTool
    from email_assistant.tools.send_email import SendEmailTool

    return [
        SendEmailTool(ledger, accounts),
        ScheduleMeetingTool(ledger, accounts, meet_links=settings.meet_links),
        CheckCalendarTool(WorkingHours.parse(settings.working_hours)),
        QuestionTool(),
        DoneTool(),
    ]


def chat_tools(
    pool: Pool, accounts: Accounts, clients: Clients, ledger: Ledger, inbox: Inbox, mails: Mails
) -> list[Tool]:
    """The tools of a chat that run in this process: mail to send, and the person's inbox to look into."""
    from email_assistant.inbox.sentences import sentence
    from email_assistant.memory.profiles import Memory
    from email_assistant.tools.control import ClarificationTool
    from email_assistant.tools.explain_mail import ExplainMailTool
    from email_assistant.tools.find_mail import FindMailTool
    from email_assistant.tools.list_waiting import ListWaitingTool
    from email_assistant.tools.mailbox import AnyMail
    from email_assistant.tools.write_email import WriteEmailTool
    from email_assistant.trail.story import Trail

    return [
        ClarificationTool(),
        WriteEmailTool(ledger, AnyMail(pool, clients), accounts),
        ListWaitingTool(inbox.waiting, sentence),
        FindMailTool(mails.find),
        ExplainMailTool(Trail(pool, Memory.kept_in(pool)).of_mail),
    ]


def api_token(settings: Settings) -> str:
    """The token of the pages and the API: from the environment, else made at first start and kept."""
    return _secret(settings, "api_token", secrets.token_urlsafe(24))


def mcp_token(settings: Settings) -> str:
    """The token of `mcp serve --http`: from the environment, else made at first use and kept."""
    return _secret(settings, "mcp_token", secrets.token_urlsafe(24))


def renew_mcp_token(settings: Settings) -> None:
    """Put another in place of the one that is kept, which opens nothing any more, in servers that run already too."""
    keep_secret(_secret_file(settings, "mcp_token"), secrets.token_urlsafe(24))


def own_host(settings: Settings) -> str:
    """A name of this machine that nobody else knows, made at first use and kept."""
    return f"{kept_secret(_secret_file(settings, 'host_name'), secrets.token_hex(10))}.localhost"


def secret_key(settings: Settings) -> str:
    """The key of the Google tokens in the database: from the environment, else made at first use and kept."""
    return _secret(settings, "secret_key", Fernet.generate_key().decode())


def check_secret_key(settings: Settings, key: str) -> None:
    """Whether a backup's key can be kept here. Raises VaultError: it is no key, or the environment sets another."""
    try:
        Fernet(key)
    except ValueError:
        raise VaultError("the backup's key is no key: the file is damaged, or was changed by somebody else") from None
    if settings.secret_key and settings.secret_key.get_secret_value() != key:
        raise VaultError("EMAIL_ASSISTANT_SECRET_KEY is not the key that these tokens are encrypted with: unset it")


def keep_secret_key(settings: Settings, key: str) -> None:
    """Keep another installation's key in place of the one that there was."""
    if not settings.secret_key:
        keep_secret(_secret_file(settings, "secret_key"), key)


def _secret(settings: Settings, name: str, new: str) -> str:
    given = getattr(settings, name)
    return str(given.get_secret_value()) if given else kept_secret(_secret_file(settings, name), new)


def _secret_file(settings: Settings, name: str) -> Path:
    return settings.folder / f"{name}.txt"


def _create_database(url: str) -> None:
    with (
        psycopg.connect(url, autocommit=True) as conn,
        suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation),
    ):
        if not conn.execute("select from pg_database where datname = %s", (_DATABASE,)).fetchone():
            conn.execute(f"create database {_DATABASE}")


@contextmanager
def _kept(server: EmbeddedPostgres) -> Iterator[None]:
    done = threading.Event()

    def keep() -> None:
        while not done.wait(_KEEP_SECONDS):
            try:
                server.keep()
            except Exception:
                log.exception("the embedded Postgres can't be started again; trying on")

    thread = threading.Thread(target=keep, name="postgres-keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
