"""The composition root: opens database, queue, clients and graph; everything else is handed what it needs."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import UUID

from email_assistant.accounts.account import Account
from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients, connect_of
from email_assistant.accounts.sessions import Sessions
from email_assistant.accounts.vault import Vault, keys_of
from email_assistant.db.migrate import migrate
from email_assistant.db.model_servers import ModelServers
from email_assistant.db.pool import Pool, make_pool
from email_assistant.db.presence import Holder, Presence
from email_assistant.google.quota import Limits
from email_assistant.home import secret_key
from email_assistant.inbox.feed import Feed
from email_assistant.inbox.mails import Mails
from email_assistant.inbox.person import Inbox
from email_assistant.inbox.questions import Questions
from email_assistant.inbox.recipients import Recipients
from email_assistant.inbox.teaching import Teaching
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.keyed import KeyedOutbox
from email_assistant.outward import Outward
from email_assistant.settings import Settings
from email_assistant.tools.config import RuleFiles
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.spec import ServerDown, Tool, ToolError
from email_assistant.tracing import keep_langsmith_off
from email_assistant.usage import Usage
from email_assistant.work.corrections import Corrections
from email_assistant.work.tasks import Queue

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from mcp.server.lowlevel import Server

    from email_assistant.memory.profiles import Memory
    from email_assistant.model import Models
    from email_assistant.model.tally import Tally
    from email_assistant.sync.past_mails import PastMails
    from email_assistant.tools.mcp.pool import Builtin, Servers
    from email_assistant.tools.overview import Overview
    from email_assistant.tools.registry import Registry
    from email_assistant.work.chat import Chat
    from email_assistant.work.forgetting import Forgetting, Removal
    from email_assistant.work.what_if import WhatIf


@dataclass(frozen=True)
class Toolbox:
    """The tools, and the servers that some of them run on."""

    registry: "Registry"  # both agents'
    overview: "Overview"  # of all tools, for the person
    servers: "Servers"


class Closable(Protocol):
    async def aclose(self) -> None: ...


P = TypeVar("P", bound=Closable)


@dataclass(frozen=True)
class App:
    """What every command and every page works with."""

    settings: Settings
    rules: RuleFiles  # what the person's files say of every tool
    pool: Pool
    vault: Vault  # of what is encrypted in the database
    holder: Holder  # this process, as a holder of leases
    presence: Presence  # whether any process works
    queue: Queue
    accounts: Accounts
    clients: Clients
    ledger: Ledger
    outbox: KeyedOutbox
    inbox: Inbox
    questions: Questions
    teaching: Teaching
    recipients: Recipients
    mails: Mails
    corrections: Corrections
    usage: Usage
    model_servers: ModelServers
    sessions: Sessions  # the browsers that are logged in
    pictures: Outward  # fetches those of mails, which never reach this machine or its network, whatever webhooks may
    user_id: UUID  # the one implicit user of a home installation
    _parts: dict[Callable[["App"], "Closable"], "Closable"] = field(default_factory=dict, init=False)

    @cached_property
    def toolbox(self) -> Toolbox:
        """Put together at first use: what it takes to import is more than all else that most commands do."""
        return _fill_toolbox(self)

    @cached_property
    def models(self) -> "Models":
        """Loaded at first use, as the toolbox is."""
        from email_assistant.model import Models

        return Models(self.settings, self.usage, self.model_servers)

    @cached_property
    def feed(self) -> Feed:
        """Listens while somebody in this process does."""
        return Feed(self.pool)

    @property
    def tools(self) -> "Registry":
        return self.toolbox.registry

    @property
    def overview(self) -> "Overview":
        return self.toolbox.overview

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call checked with the tools of the agent that proposed it. Raises ToolError, BadFile."""
        try:
            return await self.tools.complete(run, name, arguments)
        except ServerDown as down:
            raise ToolError(str(down)) from None

    def part(self, make: Callable[["App"], P]) -> P:
        """What a feature has for as long as the app is open; made at its first use."""
        if make not in self._parts:
            self._parts[make] = make(self)
        return cast("P", self._parts[make])

    async def aclose(self) -> None:
        """Leave what was opened meanwhile."""
        if "toolbox" in self.__dict__:
            await self.toolbox.servers.aclose()
        if "models" in self.__dict__:
            await self.models.aclose()
        for part in self._parts.values():
            await part.aclose()
        await self.pictures.aclose()
        await self.clients.aclose()
        await self.holder.aclose()


@asynccontextmanager
async def open_app(settings: Settings, url: str, *, wait_seconds: float | None = None) -> AsyncIterator[App]:
    """Open everything that every command needs, with the schema brought up to date. `wait_seconds`: for another
    process that does so; None: as long as it takes. Raises VaultError, BadFile, BadPlugin, UnusableDatabase."""
    rules = RuleFiles(settings)
    rules.now()
    await migrate(url, wait_seconds=wait_seconds)
    async with make_pool(url, size=20, idle_seconds=settings.lease_seconds) as pool:
        queue = Queue(pool, url)
        keys = secret_key(settings)
        vault = Vault(keys)
        accounts = Accounts(pool, vault, settings.provider)
        limits = Limits(
            settings.gmail_user_limit, settings.gmail_project_limit, settings.calendar_user_limit, settings.quota_units
        )
        clients = Clients(
            pool,
            accounts,
            root=settings.google_root,
            timeout=settings.google_timeout_seconds,
            limits=limits,
            busy_calendars=settings.also_busy,
            other=connect_of(settings.mail_provider),
        )
        ledger = Ledger(pool, settings.google_timeout_seconds)
        outbox = KeyedOutbox(ledger)
        mails, questions = Mails(pool), Questions(pool)

        async def complete(run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return await app.complete(run, name, arguments)

        inbox = Inbox(
            pool, enqueue=queue.decided, complete=complete, undo_window=settings.undo_window, lifetime=settings.lifetime
        )
        usage = Usage(pool, accounts, settings)
        holder = Holder(url)
        app = App(
            settings,
            rules,
            pool,
            vault,
            holder,
            Presence(pool, holder, settings.provider, settings.start_command),
            queue,
            accounts,
            clients,
            ledger,
            outbox,
            inbox,
            questions,
            Teaching(pool),
            Recipients(pool, clients),
            mails,
            Corrections(pool, mails, questions, enqueue=queue.decided),
            usage,
            ModelServers(pool, queue.arrived, timedelta(seconds=settings.model_probe_seconds)),
            Sessions(pool, keys_of(keys)[0]),
            Outward(private=False),
            await accounts.home_user(),
        )
        try:
            yield app
        finally:
            await app.aclose()


@asynccontextmanager
async def open_models(settings: Settings) -> "AsyncIterator[tuple[Models, Tally]]":
    """Models for what is nobody's mail, and the count of what they are asked; it needs no database."""
    from email_assistant.model import Models
    from email_assistant.model.tally import Tally

    tally = Tally()
    models = Models(settings, tally)
    try:
        yield models, tally
    finally:
        await models.aclose()


def open_memory(app: App) -> "Memory":
    """The learned preferences."""
    from email_assistant.memory.profiles import Memory

    return Memory.kept_in(app.pool)


def past_mails(app: App) -> "PastMails":
    """The mail of the past that rehearsals have read, and how more of it is read."""
    from email_assistant.sync.past_mails import PastMails

    return PastMails(app.pool, app.clients)


def open_chat(app: App, callbacks: "Sequence[BaseCallbackHandler]" = ()) -> "Chat":
    """The chat agent, and the chats that it carries on.

    Args:
        callbacks: who is told of each run, as `tracing` gives them.
    """
    from email_assistant.agents.chat.graph import ChatAgent
    from email_assistant.db.checkpoints import FencedSaver
    from email_assistant.gate.ledger import GateLedger
    from email_assistant.work.by_chat import ByChat, SaidBefore
    from email_assistant.work.chat import Chat, Turns
    from email_assistant.work.driver import Driver
    from email_assistant.work.due import DueWork
    from email_assistant.work.evidence import Evidence
    from email_assistant.work.invoke import Invoker
    from email_assistant.work.runs import Runs
    from email_assistant.work.settle import Settler

    keep_langsmith_off()
    settings = app.settings
    memory = open_memory(app)
    evidence = Evidence(app.pool, app.accounts, app.recipients, memory, settings.hours, None)
    agent = ChatAgent(
        app.accounts,
        app.clients,
        memory,
        app.models,
        app.tools,
        app.ledger,
        evidence,
        GateLedger(app.pool),
        settings.max_steps,
    )
    invoker = Invoker(agent.graph(FencedSaver(app.pool)).with_config(callbacks=list(callbacks)), app.questions)
    runs, turns = Runs(app.pool), Turns(app.pool)
    waits = settings.when_spent == "wait"
    due = DueWork(app.pool, settings.provider, app.holder, waits_when_spent=waits)
    by_chat = ByChat(
        app.pool,
        turns,
        runs,
        app.questions,
        app.recipients,
        app.ledger,
        app.accounts,
        app.tools,
        evidence,
        invoker,
        SaidBefore(turns, app.ledger, invoker),
    )
    driver = Driver(
        by_chat,
        app.pool,
        runs,
        app.questions,
        app.ledger,
        app.accounts,
        Settler(runs, app.ledger, app.clients, app.tools.settle),
        app.tools,
        invoker,
        due.is_due,
        settings.lease_seconds,
        app.holder,
        settings.max_tries,
    )
    return Chat(
        driver, app.pool, turns, runs, app.inbox, app.ledger, app.accounts, invoker, settings.lease_seconds, app.holder
    )


def open_what_if(app: App) -> "WhatIf":
    """What tries a rule on mail of the past."""
    from email_assistant.work.what_if import WhatIf

    return WhatIf(app.pool, open_memory(app), app.models, app.settings)


def removal(app: App, account: Account) -> "Removal":
    """What forgets an account of whatever provider."""
    from email_assistant.work.forgetting import Removal
    from email_assistant.work.runs import Runs
    from email_assistant.work.settle import Settler

    settler = Settler(Runs(app.pool), app.ledger, app.clients, app.tools.settle)
    return Removal(app.pool, app.accounts, app.clients, app.ledger, settler, app.settings.lease_seconds, app.holder)


def forgetting(app: App) -> "Forgetting":
    """What forgets a mail or a correspondent."""
    from email_assistant.work.forgetting import Forgetting

    return Forgetting(app.pool, app.mails, open_memory(app))


def _fill_toolbox(app: App) -> Toolbox:
    from email_assistant.tools.mcp.pool import Servers
    from email_assistant.tools.mcp.seen import SeenTools
    from email_assistant.tools.overview import Overview
    from email_assistant.tools.registry import Registry

    seen = SeenTools(app.pool, app.user_id)
    own = own_servers(app.accounts, app.clients, app.outbox, app.settings)
    servers = Servers(lambda: app.rules.known.config.servers, own, seen.look, app.settings.folder)
    return Toolbox(
        Registry(
            app.rules,
            mail_tools(app.pool, app.ledger, app.accounts, app.mails, app.settings),
            chat_tools(app.pool, app.accounts, app.clients, app.ledger, app.inbox, app.mails),
            servers,
            app.ledger,
            partial(Mailbox, app.accounts, app.clients),
        ),
        Overview(app.rules, servers, seen, app.user_id),
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

        mailbox = Mailbox(accounts, clients, account_id)
        return create_agent_server(mailbox, outbox, settings.hours, meet=settings.meet_links)

    return {"calendar": calendar, "mail": mail, "agent": agent}


def mail_tools(pool: Pool, ledger: Ledger, accounts: Accounts, mails: Mails, settings: Settings) -> list[Tool]:
    """The mail agent's tools, as they run here."""
    from email_assistant.tools.check_calendar import CheckCalendarTool
    from email_assistant.tools.control import DoneTool, QuestionTool
    from email_assistant.tools.events import ScheduleMeetingTool
    from email_assistant.tools.sending import SendEmailTool
    from email_assistant.tools.times import OfferedTimes
    from email_assistant.trail.chat_tools import SearchMailTool

    return [
        SendEmailTool(ledger, accounts, OfferedTimes(pool)),
        ScheduleMeetingTool(pool, ledger, accounts, meet_links=settings.meet_links),
        CheckCalendarTool(settings.hours),
        *([SearchMailTool(mails)] if settings.past_mail else []),
        QuestionTool(),
        DoneTool(),
    ]


def chat_tools(
    pool: Pool, accounts: Accounts, clients: Clients, ledger: Ledger, inbox: Inbox, mails: Mails
) -> list[Tool]:
    """The tools of a chat that run in this process: mail to send, and the person's inbox to look into."""
    from email_assistant.memory.profiles import Memory
    from email_assistant.tools.control import ClarificationTool
    from email_assistant.tools.mailbox import AnyMail
    from email_assistant.tools.sending import WriteEmailTool
    from email_assistant.trail.chat_tools import ExplainMailTool, FindMailTool, ListWaitingTool
    from email_assistant.trail.story import Trail

    return [
        ClarificationTool(),
        WriteEmailTool(ledger, AnyMail(pool, clients), accounts),
        ListWaitingTool(inbox),
        FindMailTool(mails),
        ExplainMailTool(Trail(pool, Memory.kept_in(pool))),
    ]
