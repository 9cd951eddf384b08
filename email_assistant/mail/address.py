"""Mail addresses: the data, a tolerant list parser and a strict check."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from email_assistant.mail.charset import decode_words, one_line

_SPECIALS = re.compile(r'[,;:<>()\[\]"@\\]')
_ADDR_SPEC = re.compile(
    r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])",
    re.ASCII | re.IGNORECASE,
)
_MAILTO = re.compile(r"mailto:", re.IGNORECASE)
_ROUTE = re.compile(r"@[^<>:@\s]+:(?=\S)")  # "<@relay.example:kim@example.org>" (RFC 5322, 4.4)
_NAMED = re.compile(r"[^<>]*<([^<>]*)>\s*")
_WRITTEN = re.compile(r'(?:"(?:\\.|[^"\\])*+"|[^,;\r\n])++')
"""An entry of a list that a person or a model wrote; what stands in quotes splits none."""
_LINK = "mailto:"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MAX_NAME_PIECES = 5
_MAX_ADDRESS, _MAX_LOCAL_PART = 254, 64  # RFC 5321, 4.5.3.1


@dataclass(frozen=True, slots=True)
class Address:
    """A name and an address; either may be empty."""

    name: str
    email: str

    def __str__(self) -> str:
        """The display form, `Name <a@b>`, that `parse_addresses` reads back."""
        name = self.name
        if _SPECIALS.search(name):
            name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return f"{name} <{self.email}>" if name else self.email


def is_valid_address(s: str) -> bool:
    """Whether `s` is one plain ASCII `local@domain.tld` that is safe to send to."""
    if len(s) > _MAX_ADDRESS or s.find("@") > _MAX_LOCAL_PART:
        return False
    return _ADDR_SPEC.fullmatch(s) is not None


def in_ascii(whom: str) -> str:
    """An address or a domain, in lower case, as the network knows its domain: `bücher.example` and
    `xn--bcher-kva.example` are one. What is no domain stands as it is."""
    local, at, domain = whom.lower().rpartition("@")
    try:
        return f"{local}{at}{domain.encode('idna').decode()}"
    except UnicodeError:
        return whom.lower()


def address_of(recipient: str) -> str:
    """The bare address, in lower case, of `a@b` or `Name <a@b>`: what recipients are compared by. The database has
    this function too."""
    named = _NAMED.fullmatch(recipient)
    return (named[1] if named else recipient).strip().lower()


def is_recipient(s: str) -> bool:
    """Whether `s` is one valid address, or a name and one in angle brackets, that a letter can be sent to."""
    address = address_of(s)
    if not is_valid_address(address) or _CONTROL.search(s):
        return False
    return [found.email.lower() for found in parse_addresses(s)] == [address]


def split_recipients(written: str) -> list[str]:
    """The entries of a list as they were written, parted by commas, semicolons or lines: `"Doe, John"
    <j@example.org>, bob@example.org` has two. Of `mailto:bob@example.org` the address is the entry; a link that says
    more than that stays a link, which is no recipient."""
    return [_linked(entry.strip()) for entry in _WRITTEN.findall(written) if entry.strip()]


def _linked(entry: str) -> str:
    is_plain = entry[: len(_LINK)].lower() == _LINK and "?" not in entry
    return entry[len(_LINK) :].strip() if is_plain else entry


def untagged(s: str) -> str:
    """An address in lower case, without the tag of `local+tag@domain`."""
    local, at, domain = s.lower().rpartition("@")
    return f"{local.partition('+')[0]}{at}{domain}"


def parse_addresses(value: str) -> tuple[Address, ...]:
    """Every entry of an address list that holds an address; groups are flattened, damage is skipped."""
    found = []
    name_so_far: list[str] = []
    for entry in _entries(value):
        if "@" not in entry:
            # `Doe, John <j@example.org>`: an unquoted comma split the name.
            name_so_far = [*name_so_far[-_MAX_NAME_PIECES:], entry] if entry.strip() else []
            continue
        found.append(_address(", ".join([*name_so_far, entry])))
        name_so_far = []
    return tuple(address for address in found if address.email.find("@") > 0)


def _entries(value: str) -> Iterator[str]:
    """Split at the commas, semicolons and group names that stand outside quotes, comments and brackets."""
    start, comments, quoted, escaped, bracketed = 0, 0, False, False, False
    for position, character in enumerate(value):
        if escaped or character == "\\":
            escaped = not escaped
        elif character == '"' and not comments:
            quoted = not quoted
        elif quoted:
            continue
        elif character == "(":
            comments += 1
        elif character == ")" and comments:
            comments -= 1
        elif comments:
            continue
        elif character in "<>":
            bracketed = character == "<"
        elif character in ",;":
            yield value[start:position]
            start, bracketed = position + 1, False
        elif character == ":" and not bracketed and value[max(0, position - 6) : position].lower() != "mailto":
            start = position + 1
    # An unclosed mark must not swallow the rest of the list.
    yield from value[start:].split(",") if quoted or comments else [value[start:]]


def _address(entry: str) -> Address:
    before, bracket, rest = entry.rpartition("<")
    if bracket:
        return Address(_name(before), _bare(rest.partition(">")[0]))
    words = entry.partition("(")[0].split()
    email = next((word for word in words if "@" in word), "")
    name = entry.partition("(")[2].rpartition(")")[0] or " ".join(word for word in words if word != email)
    return Address(_name(name), _bare(email.strip("'\"[]<>")))


def _bare(written: str) -> str:
    """The address without what programs put before it."""
    return _ROUTE.sub("", _MAILTO.sub("", one_line(written), count=1), count=1)


def _name(raw: str) -> str:
    name = one_line(raw)
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return one_line(decode_words(name))
