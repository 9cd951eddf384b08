"""The composition root: opens the database, and makes every part of what it needs."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import UUID

from pydantic import SecretStr

from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients, connect_of
from email_assistant.accounts.sessions import Sessions
from email_assistant.accounts.vault import Vault, keys_of
from email_assistant.db.migrate import migrate
from email_assistant.db.model_servers import ModelServers
from email_assistant.db.pool import Pool, make_pool
from email_assistant.db.presence import Holder, Presence
from email_assistant.google.quota import Limits
from email_assistant.home import new_secret_key, secret_key
from email_assistant.inbox.feed import Feed
from email_assistant.outgoing.effects import Ledger
from email_assistant.outward import Outward
from email_assistant.settings import Settings
from email_assistant.tools.config import RuleFiles, ShippedRules
from email_assistant.tracing import keep_langsmith_off
from email_assistant.usage import Usage
from email_assistant.work.tasks import Queue

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler

    from email_assistant.gate.ledger import GateLedger
    from email_assistant.inbox.mails import Mails
    from email_assistant.inbox.person import Inbox
    from email_assistant.inbox.questions import Questions
    from email_assistant.inbox.recipients import Recipients
    from email_assistant.inbox.teaching import Teaching
    from email_assistant.memory.profiles import Memory
    from email_assistant.model import Models
    from email_assistant.model.tally import Tally
    from email_assistant.outgoing.keyed import KeyedOutbox
    from email_assistant.sync.past_mails import PastMails
    from email_assistant.toolbox import Toolbox
    from email_assistant.tools.mcp.pool import Builtin
    from email_assistant.tools.overview import Overview
    from email_assistant.tools.own.server import Admits
    from email_assistant.tools.registry import Registry
    from email_assistant.work.chat import Chat
    from email_assistant.work.conversations import Conversations
    from email_assistant.work.corrections import Corrections
    from email_assistant.work.driver import Driver, Workflow
    from email_assistant.work.due import DueWork
    from email_assistant.work.evidence import Evidence
    from email_assistant.work.forgetting import Forgetting, Removal
    from email_assistant.work.handover import Handover
    from email_assistant.work.invoke import Invoker
    from email_assistant.work.rows import OpenRuns
    from email_assistant.work.runs import Runs
    from email_assistant.work.settle import Settler
    from email_assistant.work.what_if import WhatIf


class Closable(Protocol):
    async def aclose(self) -> None: ...


P = TypeVar("P", bound=Closable)
S = TypeVar("S", bound="OpenRuns")


class App:
    """What every command and every page works with. A part that is heavy to import is made at its first use: most
    commands use few of them."""

    user_id: UUID
    """The one implicit user of a home installation."""

    def __init__(self, settings: Settings, rules: RuleFiles, pool: Pool, url: str) -> None:
        """
        Raises:
            VaultError, BadPlugin.
        """
        keys = secret_key(settings)
        self.settings = settings
        self.rules = rules  # what the person's files say of every tool
        self.pool = pool
        self.vault = Vault(keys)  # of what is encrypted in the database
        self.holder = Holder(url)  # this process, as a holder of leases
        self.presence = Presence(pool, self.holder, settings.provider, settings.start_command)  # of any that works
        self.queue = Queue(pool, url)
        self.accounts = Accounts(pool, self.vault, settings.provider)
        self.clients = Clients(
            pool,
            self.accounts,
            root=settings.google_root,
            timeout=settings.google_timeout_seconds,
            limits=Limits(
                settings.gmail_user_limit,
                settings.gmail_project_limit,
                settings.calendar_user_limit,
                settings.quota_units,
            ),
            busy_calendars=settings.also_busy,
            other=connect_of(settings.mail_provider),
        )
        self.ledger = Ledger(pool, settings.google_timeout_seconds)
        self.usage = Usage(pool, self.accounts, settings)
        self.model_servers = ModelServers(pool, self.queue.arrived, timedelta(seconds=settings.model_probe_seconds))
        self.sessions = Sessions(pool, keys_of(keys)[0])  # the browsers that are logged in
        self.feed = Feed(pool)  # listens while somebody in this process does
        self.pictures = Outward(private=False)
        """Fetches those of mails, which never reach this machine or its network, whatever webhooks may."""
        self._parts: dict[Callable[[App], Closable], Closable] = {}

    # What waits for the person, and what they say

    @cached_property
    def inbox(self) -> "Inbox":
        from email_assistant.inbox.person import Inbox

        settings = self.settings
        return Inbox(
            self.pool,
            enqueue=self.queue.decided,
            complete=self.complete,
            undo_window=settings.undo_window,
            lifetime=settings.lifetime,
        )

    @cached_property
    def questions(self) -> "Questions":
        from email_assistant.inbox.questions import Questions

        return Questions(self.pool)

    @cached_property
    def teaching(self) -> "Teaching":
        from email_assistant.inbox.teaching import Teaching

        return Teaching(self.pool)

    @cached_property
    def recipients(self) -> "Recipients":
        from email_assistant.inbox.recipients import Recipients

        return Recipients(self.pool, self.clients)

    @cached_property
    def mails(self) -> "Mails":
        from email_assistant.inbox.mails import Mails

        return Mails(self.pool)

    @cached_property
    def corrections(self) -> "Corrections":
        from email_assistant.work.corrections import Corrections

        return Corrections(self.pool, self.mails, self.questions, enqueue=self.queue.decided)

    @cached_property
    def memory(self) -> "Memory":
        """The learned preferences."""
        from email_assistant.memory.profiles import Memory

        return Memory.kept_in(self.pool)

    @cached_property
    def what_if(self) -> "WhatIf":
        """What tries a rule on mail of the past."""
        from email_assistant.work.what_if import SortAgain, WhatIf

        sort_again = SortAgain(self.pool, self.accounts, self.models, self.settings)
        return WhatIf(self.pool, self.memory, sort_again, self.settings)

    @cached_property
    def forgetting(self) -> "Forgetting":
        """What forgets a mail or a correspondent."""
        from email_assistant.work.forgetting import Forgetting

        return Forgetting(self.pool, self.mails, self.memory)

    @cached_property
    def removal(self) -> "Removal":
        """What forgets an account of whatever provider."""
        from email_assistant.work.forgetting import Removal

        return Removal(
            self.pool,
            self.accounts,
            self.clients,
            self.ledger,
            self.settler,
            lease_seconds=self.settings.lease_seconds,
            holder=self.holder,
        )

    @cached_property
    def past_mails(self) -> "PastMails":
        """The mail of the past that rehearsals have read, and how more of it is read."""
        from email_assistant.sync.past_mails import PastMails

        return PastMails(self.pool, self.clients)

    # Models and tools

    @cached_property
    def models(self) -> "Models":
        from email_assistant.model import Models

        return Models(self.settings, self.usage, self.model_servers)

    @cached_property
    def toolbox(self) -> "Toolbox":
        from email_assistant.toolbox import Toolbox, chat_tools, mail_tools
        from email_assistant.tools.mcp.pool import Servers
        from email_assistant.tools.mcp.seen import SeenTools
        from email_assistant.tools.overview import Overview
        from email_assistant.tools.own.mailbox import Mailbox
        from email_assistant.tools.own.server import admit_all
        from email_assistant.tools.registry import Registry

        for_mail = mail_tools(self.pool, self.ledger, self.accounts, self.mails, self.settings)
        for_chats = chat_tools(self.pool, self.accounts, self.clients, self.ledger, self.inbox, self.mails)
        seen = SeenTools(self.pool, self.user_id)
        own = self.own_servers(admit_all)
        servers = Servers(lambda: self.rules.known.config.servers, own, seen.look, self.settings.folder)
        mailbox = partial(Mailbox, self.accounts, self.clients)
        registry = Registry(self.rules, for_mail, for_chats, servers, self.ledger, mailbox)
        return Toolbox(registry, Overview(self.rules, servers, seen, self.user_id), servers)

    def own_servers(self, admits: "Admits") -> "Builtin":
        """Our own MCP servers, by name, each for one account."""
        from email_assistant.toolbox import own_servers

        return own_servers(self.accounts, self.clients, self.outbox, self.settings, admits)

    @property
    def tools(self) -> "Registry":
        return self.toolbox.registry

    @property
    def overview(self) -> "Overview":
        return self.toolbox.overview

    async def complete(self, run: Mapping[str, Any], name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A call checked with the tools of the agent that proposed it. Raises ToolError, BadFile."""
        from email_assistant.tools.spec import ServerDown, ToolError

        try:
            return await self.tools.complete(run, name, arguments)
        except ServerDown as down:
            raise ToolError(str(down)) from None

    @cached_property
    def gate(self) -> "GateLedger":
        from email_assistant.gate.ledger import GateLedger

        return GateLedger(self.pool)

    # What leaves, and the runs that it is of

    @cached_property
    def outbox(self) -> "KeyedOutbox":
        from email_assistant.outgoing.keyed import KeyedOutbox

        return KeyedOutbox(self.ledger)

    @cached_property
    def runs(self) -> "Runs":
        from email_assistant.work.runs import Runs

        return Runs(self.pool)

    @cached_property
    def settler(self) -> "Settler":
        from email_assistant.work.settle import Settler

        return Settler(self.runs, self.ledger, self.clients, self.tools.settle)

    @cached_property
    def conversations(self) -> "Conversations":
        """Those by mail."""
        from email_assistant.work.conversations import Conversations

        return Conversations(self.pool, self.settings.provider, self.runs)

    @cached_property
    def evidence(self) -> "Evidence":
        """Of conversations by mail."""
        from email_assistant.work.evidence import Evidence

        hours = self.settings.hours
        return Evidence(self.pool, self.accounts, self.recipients, self.memory, hours, conversations=self.conversations)

    @cached_property
    def handover(self) -> "Handover":
        from email_assistant.work.handover import Handover

        return Handover(
            self.pool,
            self.conversations,
            self.runs,
            self.questions,
            self.ledger,
            self.clients,
            replies_per_day=self.settings.replies_per_day,
        )

    def driver(self, workflow: "Workflow[S]", invoker: "Invoker", due: "DueWork") -> "Driver[S]":
        """What carries conversations of one kind on."""
        from email_assistant.work.driver import Driver

        return Driver(
            workflow=workflow,
            pool=self.pool,
            runs=self.runs,
            questions=self.questions,
            ledger=self.ledger,
            accounts=self.accounts,
            settler=self.settler,
            tools=self.tools,
            invoker=invoker,
            is_due=due.is_due,
            lease_seconds=self.settings.lease_seconds,
            holder=self.holder,
            max_tries=self.settings.max_tries,
        )

    # Features

    def part(self, make: Callable[["App"], P]) -> P:
        """What a feature has for as long as the app is open; made at its first use."""
        if make not in self._parts:
            self._parts[make] = make(self)
        return cast("P", self._parts[make])

    async def aclose(self) -> None:
        """Leave what was opened meanwhile."""
        made = self.__dict__
        if "toolbox" in made:
            await self.toolbox.servers.aclose()
        if "models" in made:
            await self.models.aclose()
        for part in self._parts.values():
            await part.aclose()
        await self.pictures.aclose()
        await self.clients.aclose()
        await self.holder.aclose()


@asynccontextmanager
async def open_app(settings: Settings, url: str, *, wait_seconds: float | None = None) -> AsyncIterator[App]:
    """Open what every command needs, with the schema brought up to date. `wait_seconds`: for another process that does
    so; None: as long as it takes. Raises VaultError, BadFile, BadPlugin, UnusableDatabase."""
    rules = RuleFiles(settings)
    rules.now()
    await migrate(url, wait_seconds=wait_seconds)
    async with make_pool(url, size=20, idle_seconds=settings.lease_seconds) as pool:
        app = App(settings, rules, pool, url)
        app.user_id = await app.accounts.home_user()
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


@asynccontextmanager
async def open_shipped_tools(settings: Settings) -> "AsyncIterator[Registry]":
    """The tools that ship, to be shown to a model and never run: their database is not opened, and need not be there.
    Raises BadPlugin."""
    keyed = settings.model_copy(update={"secret_key": SecretStr(new_secret_key())})
    app = App(keyed, ShippedRules(), make_pool("", size=1, idle_seconds=settings.lease_seconds), "")
    app.user_id = UUID(int=0)
    try:
        yield app.tools
    finally:
        await app.aclose()


def open_chat(app: App, callbacks: "Sequence[BaseCallbackHandler]" = ()) -> "Chat":
    """The chat agent, and the chats that it carries on.

    Args:
        callbacks: who is told of each run, as `tracing` gives them.
    """
    from email_assistant.agents.chat.graph import ChatAgent
    from email_assistant.db.checkpoints import FencedSaver
    from email_assistant.work.by_chat import ByChat, SaidBefore
    from email_assistant.work.chat import Chat, Turns
    from email_assistant.work.due import DueWork
    from email_assistant.work.evidence import Evidence
    from email_assistant.work.invoke import Invoker

    keep_langsmith_off()
    settings, turns = app.settings, Turns(app.pool)
    evidence = Evidence(app.pool, app.accounts, app.recipients, app.memory, settings.hours, conversations=None)
    agent = ChatAgent(
        accounts=app.accounts,
        clients=app.clients,
        memory=app.memory,
        models=app.models,
        tools=app.tools,
        ledger=app.ledger,
        evidence=evidence,
        gate=app.gate,
        max_steps=settings.max_steps,
    )
    invoker = Invoker(agent.graph(FencedSaver(app.pool)).with_config(callbacks=list(callbacks)), app.questions)
    by_chat = ByChat(
        pool=app.pool,
        turns=turns,
        runs=app.runs,
        questions=app.questions,
        recipients=app.recipients,
        ledger=app.ledger,
        accounts=app.accounts,
        tools=app.tools,
        evidence=evidence,
        invoker=invoker,
        said_before=SaidBefore(turns, app.ledger, invoker),
    )
    due = DueWork(app.pool, settings.provider, app.holder, waits_when_spent=settings.when_spent == "wait")
    return Chat(
        driver=app.driver(by_chat, invoker, due),
        pool=app.pool,
        turns=turns,
        runs=app.runs,
        inbox=app.inbox,
        ledger=app.ledger,
        accounts=app.accounts,
        invoker=invoker,
        lease_seconds=settings.lease_seconds,
        holder=app.holder,
    )
