"""Preference profiles: lists of short rules, each with its origin and its earlier versions.

Kept in LangGraph's store under (email_assistant, account id, profile), one key per rule, since the store has no
compare-and-set and ten concurrent rewrites of a whole profile kept one rule.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import UUID

from langgraph.store.base import BaseStore
from pydantic import BaseModel, Field

from email_assistant.db.pool import Pool

Profile = Literal["triage_preferences", "response_preferences", "cal_preferences"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
_MOST_RULES = 200


class RuleChange(BaseModel):
    """One change to a profile, as the memory model answers it."""

    action: Literal["add", "revise", "remove", "none"]
    rule: int | None = None
    """Number of the rule that is revised or removed, counted from 1 in the list that was shown."""
    text: str = Field("", max_length=300)
    reason: str = Field("", max_length=300)


@dataclass(frozen=True, slots=True)
class Rule:
    key: str
    """The inbox item that it was first learned from."""
    text: str
    origin: dict[str, Any]
    at: str
    history: list[dict[str, Any]]
    removed: bool

    @property
    def items(self) -> set[str]:
        """Every inbox item that this rule was learned from."""
        return {str(version["origin"].get("item")) for version in (*self.history, {"origin": self.origin})}


def render(rules: list[Rule]) -> str:
    """The profile as prompts show it; the seed's single `user_preferences` text."""
    return "\n".join(f"- {rule.text}" for rule in rules)


class Memory:
    def __init__(self, store: BaseStore, pool: Pool) -> None:
        self._store = store
        self._pool = pool

    async def rules(self, account_id: UUID, profile: Profile) -> list[Rule]:
        """The rules in force, oldest first."""
        return [rule for rule in await self._all(account_id, profile) if not rule.removed]

    async def text(self, account_id: UUID, profile: Profile) -> str:
        return render(await self.rules(account_id, profile))

    async def knows(self, account_id: UUID, profile: Profile, item_id: UUID) -> bool:
        """Whether something was already learned from this item."""
        return any(str(item_id) in rule.items for rule in await self._all(account_id, profile))

    async def change(
        self, account_id: UUID, profile: Profile, change: RuleChange, shown: list[Rule], origin: dict[str, Any]
    ) -> bool:
        """Carry out one change to the profile that was `shown`; False if it is another by now, and nothing was done."""
        async with self._pool.connection() as conn, conn.transaction():
            await conn.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{account_id}/{profile}",))
            if await self.rules(account_id, profile) != shown:
                return False
            await self._write(account_id, profile, change, shown, origin)
        return True

    async def _write(
        self, account_id: UUID, profile: Profile, change: RuleChange, shown: list[Rule], origin: dict[str, Any]
    ) -> None:
        old = shown[change.rule - 1] if change.rule is not None and 1 <= change.rule <= len(shown) else None
        text, now = " ".join(change.text.split()), datetime.now(UTC).isoformat()
        origin = {**origin, "reason": change.reason}
        match change.action:
            case "add" if text and len(shown) < _MOST_RULES:
                await self._put(account_id, profile, Rule(str(origin["item"]), text, origin, now, [], removed=False))
            case "revise" if old and text:
                await self._put(account_id, profile, Rule(old.key, text, origin, now, _with(old), removed=False))
            case "remove" if old:
                await self._put(account_id, profile, Rule(old.key, old.text, origin, now, _with(old), removed=True))
            case _:
                pass

    async def _put(self, account_id: UUID, profile: Profile, rule: Rule) -> None:
        value = {
            "text": rule.text,
            "origin": rule.origin,
            "at": rule.at,
            "history": rule.history,
            "removed": rule.removed,
        }
        await self._store.aput(_namespace(account_id, profile), rule.key, value, index=False)

    async def _all(self, account_id: UUID, profile: Profile) -> list[Rule]:
        found = await self._store.asearch(_namespace(account_id, profile), limit=10 * _MOST_RULES)
        rules = [(item.created_at, Rule(key=item.key, **item.value)) for item in found]
        return [rule for _, rule in sorted(rules, key=lambda pair: (pair[0], pair[1].key))]


def _namespace(account_id: UUID, profile: Profile) -> tuple[str, str, str]:
    return ("email_assistant", str(account_id), profile)  # not the address: labels refuse "."


def _with(rule: Rule) -> list[dict[str, Any]]:
    return [*rule.history, {"text": rule.text, "origin": rule.origin, "at": rule.at, "removed": rule.removed}]
