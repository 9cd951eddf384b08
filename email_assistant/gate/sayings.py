"""What sources hold anywhere: words, and what the people among them are called."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from email_assistant.gate.names import loose
from email_assistant.gate.spans import Span, words_of
from email_assistant.gate.vocabulary import PARTICLES, TITLES

if TYPE_CHECKING:
    from email_assistant.gate.provenance import Source


_PARTED: Final = re.compile(r"[\W\d_]+")


class Sayings:
    """Words that sources hold anywhere, and those of the addresses that wrote or read them."""

    def __init__(self, sources: "Sequence[Source]") -> None:
        self.person = any(source.by != "stranger" for source in sources)
        self._addresses = {
            address for source in sources for address in (source.writer, *(source.readers or ())) if address
        }
        self._called = called_by(self._addresses)
        self._texts = [source.words for source in sources]
        self._loose: list[str] | None = None

    def writes_or_reads(self, address: str) -> bool:
        return address in self._addresses

    def domain(self, link: str) -> bool:
        return any(address.endswith(f"@{link}") for address in self._addresses)

    def name(self, text: str, span: Span) -> bool:
        """Whether each of its words is known; of one that begins a sentence only the others need be."""
        words = [word for word in span.key.split() if len(word) > 1 and word not in PARTICLES and word not in TITLES]
        unknown = [word for word in words if not self._word(word)]
        begins = re.search(r"(?:^|[.!?:\n]|[-*•]) *$", text[max(0, span.start - 4) : span.start]) is not None
        return not unknown or (begins and len(words) > 1 and unknown == words[:1])

    def _word(self, word: str) -> bool:
        if self._loose is None:
            self._loose = [loose(text) for text in self._texts]
        return is_called(word, self._called) or any(f" {word} " in text for text in self._loose)


def called_by(addresses: Iterable[str]) -> frozenset[str]:
    """Addresses, and what stands before their @ in words."""
    addresses = list(addresses)
    return frozenset({*addresses, *(word for address in addresses for word in words_of(loose(_local_part(address))))})


def parts_of(addresses: Iterable[str]) -> frozenset[str]:
    """What somebody may be called by what stands before the @ of their address: hugo.berger_7 is Hugo Berger."""
    return frozenset(part for each in addresses for part in _PARTED.split(loose(each.partition("@")[0])) if part)


def _local_part(address: str) -> str:
    return address.partition("@")[0].replace("_", " ")


def is_called(word: str, called: frozenset[str]) -> bool:
    return word in called or (len(word) > 2 and any(word in part for part in called))
