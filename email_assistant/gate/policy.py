"""Whether a call may run, must be asked about, or may not: a pure function, the one place where that is decided."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final, Literal

from email_assistant.gate.answers import Indexed
from email_assistant.gate.call import Acl, Labels, Proposed, Subject
from email_assistant.gate.doubts import leaking
from email_assistant.gate.grounds import Grounds, Known, Origin, find, unnamed
from email_assistant.gate.provenance import Source
from email_assistant.mail.address import address_of

HERE: Final = "here"  # where data is read that our own tools give, or the prompt itself
_HANDED_ON: Final = (
    "your mail, calendar, background, rules or other private data is read before this is done, and this goes to {}, "
    "which is no part of this program: look at what it would be told"
)
_SECRECY: Final[Sequence[Acl]] = ("PUBLIC", "PRIVATE", "SECRET")
_UNKNOWN: Final = "nobody has said what it touches: tool_permissions.json can"
_COMPLETE: Final = (
    "your private data and texts of strangers were read before, and something has gone out that they may have wanted"
)
_TELLS: Final = "it would tell others what they have not seen, as far as is known"
_COMPLETES: Final = "with this, your private data and texts of strangers are read, and something goes out"


@dataclass(frozen=True, slots=True)
class GateEntry:
    """A call that ran, as the ledger has it."""

    tool: str
    labels: Labels | None
    """Of then; None: nobody had said what it touches, so it may have touched everything."""
    external: bool
    """It reached others than the person."""
    cleared: bool
    """All that matters in it came from the person, or their own records."""
    server: str | None = None
    """Where it ran, if that is not ours."""

    @property
    def read_private(self) -> bool:
        return self.labels is None or self.labels.read_private_data

    @property
    def read_untrusted(self) -> bool:
        return self.labels is None or self.labels.read_untrusted_public_data


@dataclass(frozen=True, slots=True)
class Trifecta:
    """What has come together in a session."""

    private: bool
    untrusted: bool
    external: bool

    @property
    def all(self) -> bool:
        return self.private and self.untrusted and self.external

    def __or__(self, other: "Trifecta") -> "Trifecta":
        return Trifecta(
            self.private or other.private, self.untrusted or other.untrusted, self.external or other.external
        )


@dataclass(frozen=True, slots=True)
class GateSession:
    """A chat, a mail's conversation, or what a client of `/agent/session` names."""

    sources: Sequence[Source] = ()
    """The person's words, their own records, and texts of others, as of the mails that are answered."""
    answers: Sequence[Indexed] = ()
    """Of the tools that ran."""
    calls: Sequence[GateEntry] = ()
    """Those that ran, in whatever order. Nothing else says what has been read, so nothing can forget it."""
    thread: frozenset[str] | None = None
    """Who wrote to the person in the conversation that it began with, as far as the person answers them; None: it began
    with the person's own request. What begins with a mail has read something private, of a stranger."""

    answered: frozenset[str] = frozenset()
    """Who wrote what a call answers, as far as the person reviews it: then they may be answered whatever was read."""
    own: frozenset[str] = frozenset()
    """The person's addresses."""
    sent: Sequence[Source] = ()
    """What they wrote to anybody: it is so, but says nothing of who may be told it."""
    day: date | None = None
    """Today, for them."""

    def then(self, *calls: GateEntry) -> "GateSession":
        """The session once these calls, too, have run."""
        return replace(self, calls=[*self.calls, *calls])

    @property
    def texts(self) -> list[Source]:
        """All that a proposal's facts may come from."""
        return [*self.sources, *(answer.source for answer in self.answers)]

    @property
    def flags(self) -> Trifecta:
        began = Trifecta(self.thread is not None, self.thread is not None, external=False)
        return (
            Trifecta(
                any(call.read_private for call in self.calls),
                any(call.read_untrusted for call in self.calls),
                any(call.external and not call.cleared for call in self.calls),
            )
            | began
        )

    @property
    def places(self) -> frozenset[str]:
        """Where something private was read: here, or on a server that is not ours."""
        began = [] if self.thread is None else [HERE]
        return frozenset([*began, *(call.server or HERE for call in self.calls if call.read_private)])

    @property
    def secrecy(self) -> Acl:
        """The most secret that was read."""
        read = [call.labels.acl if call.labels else "SECRET" for call in self.calls if call.read_private]
        began: list[Acl] = [] if self.thread is None else ["PRIVATE"]
        return max([*read, *began], key=_SECRECY.index, default="PUBLIC")

    def known(self, *, reviewed: bool) -> Known:
        """Those who wrote in the conversation may be answered while nothing else that is private was read; longer where
        a person `reviewed` what they are told."""
        has_read = any(call.read_private for call in self.calls)
        began = self.thread or frozenset()
        return Known(
            self.sources,
            self.answers,
            began | self.answered if reviewed else frozenset() if has_read else began,
            self.sent,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    do: Literal["allow", "ask", "deny"]
    reason: str  # in plain words, for the person and the model
    overrules: bool = False  # the gate asks for a reason of its own, whatever `review` says; the person is told it
    marks: tuple[Origin, ...] = field(default=(), kw_only=True)  # where its arguments come from


def entry(session: GateSession, call: Proposed) -> GateEntry:
    """What the ledger is to keep of a call that is to run now."""
    found = _find(session, call)
    return GateEntry(
        call.tool, call.subject.labels, found.external, cleared=not found.lacks, server=call.subject.server
    )


def decide(
    session: GateSession, call: Proposed, *, scope: Collection[str] | None = None, before: Iterable[Proposed] = ()
) -> Verdict:
    """What is to become of a call.

    Args:
        scope: the types of tools that the request was given; None: all.
        before: the calls that stand before it in its message and are to run.
    """
    if reason := refused(scope, call.subject):
        return Verdict("deny", reason)
    session = session.then(*(entry(session, call) for call in before))
    found = _find(session, call)
    if because := _because(session, call, found):
        return Verdict("ask", because, overrules=True, marks=found.marks)
    if call.subject.review == "always":
        return Verdict("ask", "its calls are always reviewed", marks=found.marks)
    if _tells(session, call, found):
        return Verdict("ask", _TELLS, overrules=True, marks=found.marks)
    return Verdict("allow", "you, or your own records, say all that matters in it", marks=found.marks)


def _find(session: GateSession, call: Proposed) -> Grounds:
    """What matters in a call. An answer to a mail does what the mail asks for: where a person reviews it, and it is
    done here, they need only be told whom it reaches, and where it leads them."""
    subject = call.subject
    places = session.places - (set() if subject.may_tell_others or subject.server is None else {subject.server})
    reviewed = subject.review == "always"
    found = find(call, session.known(reviewed=reviewed), handed_on=subject.server is not None and bool(places))
    if not reviewed or session.thread is None or call.arguments is None or subject.server is not None:
        return found
    strange = [mark for mark in found.marks if mark.what in ("goes to", "leads to") and not mark.grounded]
    return replace(found, lacks=unnamed(strange[0]) if strange else "")


def _because(session: GateSession, call: Proposed, found: Grounds) -> str:
    """Why a person must decide, whatever they set; empty: they need not."""
    labels, flags = call.subject.labels, session.flags
    if labels is None:
        return _UNKNOWN
    if found.handed_on and (found.lacks or not found.marks):
        return _HANDED_ON.format(call.subject.server)
    if not found.lacks and (found.marks or call.subject.review == "always"):
        return ""
    if found.lacks:
        return f"it {'goes out to others' if found.external else 'changes something of yours'}, and {found.lacks}"
    if flags.all and not labels.touches_nothing:
        return _COMPLETE
    if labels.write_operation and _SECRECY.index(labels.acl) < _SECRECY.index(session.secrecy):
        return f"what was read before is {session.secrecy.lower()}, and this writes where all is {labels.acl.lower()}"
    adds = Trifecta(labels.read_private_data, labels.read_untrusted_public_data, found.external)
    return _COMPLETES if (flags | adds).all and not flags.all else ""


def _tells(session: GateSession, call: Proposed, found: Grounds) -> bool:
    """Whether what nobody reviews tells those whom it reaches what they have not seen, and the person did not say."""
    if call.arguments is None:
        return False
    to = {address_of(mark.value) for mark in found.marks if mark.what == "goes to"} - session.own
    return bool(leaking(call.arguments, to, session.texts, session.day))


def refused(scope: Collection[str] | None, subject: Subject) -> str:
    """Why a tool may not be used at all; empty: it may."""
    if scope is not None and subject.type is not None and subject.type not in scope:
        return f"this request was not given tools of the type {subject.type}"
    if subject.labels is not None and not subject.labels.enabled:
        return "it is switched off in tool_permissions.json"
    return ""
