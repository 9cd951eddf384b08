"""The tools of the agents, and of our own MCP servers, as they are made of what an app has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from email_assistant.accounts.accounts import Accounts
from email_assistant.accounts.clients import Clients
from email_assistant.db.pool import Pool
from email_assistant.inbox.mails import Mails
from email_assistant.inbox.person import Inbox
from email_assistant.memory.profiles import Memory
from email_assistant.outgoing.effects import Ledger
from email_assistant.outgoing.keyed import KeyedOutbox
from email_assistant.settings import Settings
from email_assistant.tools.check_calendar import CheckCalendarTool
from email_assistant.tools.control import ClarificationTool, DoneTool, QuestionTool
from email_assistant.tools.events import ScheduleMeetingTool
from email_assistant.tools.mailbox import AnyMail
from email_assistant.tools.mcp.pool import Builtin, Servers
from email_assistant.tools.offered_times import OfferedTimes
from email_assistant.tools.overview import Overview
from email_assistant.tools.own.mailbox import Mailbox
from email_assistant.tools.own.server import Admits
from email_assistant.tools.registry import Registry
from email_assistant.tools.sending import SendEmailTool, WriteEmailTool
from email_assistant.tools.spec import Tool
from email_assistant.trail.chat_tools import ExplainMailTool, FindMailTool, ListWaitingTool, SearchMailTool
from email_assistant.trail.story import Trail

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


@dataclass(frozen=True)
class Toolbox:
    """The tools, and the servers that some of them run on."""

    registry: Registry  # both agents'
    overview: Overview  # of all tools, for the person
    servers: Servers


def own_servers(
    accounts: Accounts, clients: Clients, outbox: KeyedOutbox, settings: Settings, admits: Admits
) -> Builtin:
    """Our own MCP servers, by name, each for one account."""

    async def calendar(account_id: UUID) -> "Server[Any, Any]":
        from email_assistant.tools.own.calendar import create_calendar_server

        return create_calendar_server(Mailbox(accounts, clients, account_id), admits, meet=settings.meet_links)

    async def mail(account_id: UUID) -> "Server[Any, Any]":
        from email_assistant.tools.own.mail import create_mail_server

        return create_mail_server(Mailbox(accounts, clients, account_id), outbox, admits)

    async def agent(account_id: UUID) -> "Server[Any, Any]":
        from email_assistant.tools.own.agent import create_agent_server

        mailbox = Mailbox(accounts, clients, account_id)
        return create_agent_server(mailbox, outbox, settings.hours, admits, meet=settings.meet_links)

    return {"calendar": calendar, "mail": mail, "agent": agent}


def mail_tools(pool: Pool, ledger: Ledger, accounts: Accounts, mails: Mails, settings: Settings) -> list[Tool]:
    """The mail agent's tools, as they run here."""

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

    return [
        ClarificationTool(),
        WriteEmailTool(ledger, AnyMail(pool, clients), accounts),
        ListWaitingTool(inbox),
        FindMailTool(mails),
        ExplainMailTool(Trail(pool, Memory.kept_in(pool))),
    ]
