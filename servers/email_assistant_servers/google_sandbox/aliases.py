"""The addresses that the person may send from."""

import sqlite3
from typing import Any

from .errors import invalid, not_found
from .mailbox import SandboxMailbox


class Aliases:
    """Those of one mailbox: its own address, and others that were added to it."""

    def __init__(self, mailbox: SandboxMailbox) -> None:
        self._mailbox = mailbox
        self._store = mailbox.store

    def listed(self) -> list[dict[str, Any]]:
        """All of them, the mailbox's own first."""
        rows = self._store.rows("SELECT * FROM aliases ORDER BY rowid")
        own = {
            "sendAsEmail": self._mailbox.address,
            "displayName": self._mailbox.name,
            "replyToAddress": "",
            "signature": self._store.fact("signature") or "",
            "isPrimary": True,
            "isDefault": not any(row["chosen"] for row in rows),
        }
        return [own, *map(_entry, rows)]

    def find(self, address: str) -> dict[str, Any]:
        """Raises ApiError (404)."""
        found = next((entry for entry in self.listed() if entry["sendAsEmail"] == address.lower()), None)
        if found is None:
            raise not_found()
        return found

    def add(self, body: dict[str, Any]) -> dict[str, Any]:
        """Add an address. Those of the person's own domain are verified, all others wait for it.

        Raises ApiError (400)."""
        address = str(body.get("sendAsEmail", "")).lower()
        if "@" not in address or any(entry["sendAsEmail"] == address for entry in self.listed()):
            raise invalid("Invalid sendAsEmail")
        verified = address.partition("@")[2] == self._mailbox.address.partition("@")[2]
        with self._store.transaction() as db:
            db.execute(
                "INSERT INTO aliases VALUES (?, ?, ?, ?, FALSE)",
                (address, str(body.get("displayName", "")), str(body.get("signature", "")), verified),
            )
        return self.find(address)

    def change(self, address: str, body: dict[str, Any]) -> dict[str, Any]:
        """Give an address another name or signature, or make it the one that new mail goes from.

        Raises ApiError (404, or 400 for what can't be changed)."""
        entry = self.find(address)
        primary = entry.get("isPrimary", False)
        if set(body) - {"displayName", "signature", "isDefault"} or (primary and "displayName" in body):
            raise invalid("The sandbox changes only 'displayName', 'signature' and 'isDefault'.")
        changed = entry | body
        with self._store.transaction() as db:
            if body.get("isDefault"):
                db.execute("UPDATE aliases SET chosen = (address = ?)", (entry["sendAsEmail"],))
            if primary:
                self._store.remember("signature", changed["signature"])
            db.execute(
                "UPDATE aliases SET name = ?, signature = ? WHERE address = ?",
                (changed["displayName"], changed["signature"], entry["sendAsEmail"]),
            )
        return self.find(address)

    def remove(self, address: str) -> None:
        """Raises ApiError (404, or 400 for the mailbox's own)."""
        if self.find(address).get("isPrimary"):
            raise invalid("The primary address can't be deleted")
        with self._store.transaction() as db:
            db.execute("DELETE FROM aliases WHERE address = ?", (address.lower(),))

    def may_send_from(self, address: str) -> bool:
        """Whether a mail leaves with this address in From."""
        return any(
            entry["sendAsEmail"] == address.lower() and entry.get("verificationStatus", "accepted") == "accepted"
            for entry in self.listed()
        )


def _entry(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "sendAsEmail": row["address"],
        "displayName": row["name"],
        "replyToAddress": "",
        "signature": row["signature"],
        "isDefault": bool(row["chosen"]),
        "treatAsAlias": True,
        "verificationStatus": "accepted" if row["verified"] else "pending",
    }
