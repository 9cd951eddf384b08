"""Parse a message, clean its text, compose a reply. Pure functions: no I/O, no other rooms."""

from .address import Address, is_valid_address, parse_addresses
from .compose import compose_reply, fingerprint, mail_fingerprint, reply_subject, with_signature
from .message import Attachment, Mail, reply_address
from .parse import parse_bytes, parse_gmail
from .prompt import for_prompt

__all__ = [
    "Address",
    "Attachment",
    "Mail",
    "compose_reply",
    "fingerprint",
    "for_prompt",
    "is_valid_address",
    "mail_fingerprint",
    "parse_addresses",
    "parse_bytes",
    "parse_gmail",
    "reply_address",
    "reply_subject",
    "with_signature",
]
