"""Preference profiles: lists of short rules, each with its origin and its earlier versions.

Kept in LangGraph's store under (email_assistant, account id, profile), one key per rule, since the store has no
compare-and-set and ten concurrent rewrites of a whole profile kept one rule.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Self
from uuid import UUID, uuid4

from langgraph.store.base import BaseStore
from psycopg.types.json import Jsonb

from email_assistant.db.pool import Connection, Pool, fetched
from email_assistant.inbox.items import Conflict, NoItem
from email_assistant.memory import markdown, trial
from email_assistant.memory.lessons import HeldLesson, HeldLessons, Learned, Lessons
from email_assistant.memory.rules import (
    MOST_RULES,
    PROFILES,
    BadRule,
    Profile,
    Rule,
    checked,
    in_order,
    is_by_hand,
    now,
    render,
    rules_cache,
    standing,
    without,
    without_mail,
)
from email_assistant.memory.trial import COUNTED, Fired, Otherwise, counted, decisions, undone

_MOST_KEPT = 100 * MOST_RULES  # of a profile, removed ones too


class NoRule(NoItem):
    """No such rule in this profile."""


def _as_it_is(value: Any) -> Any:
    return value


class Memory:
    def __init__(self, store: BaseStore, pool: Pool) -> None:
        self._store = store
        self._pool = pool
        self.lessons = Lessons(pool)
        self.held = HeldLessons(pool)
        # The store takes a connection of its own while the lock holds one: many that wait for it would leave none.
        self._one_change = asyncio.Lock()

    @classmethod
    def kept_in(cls, pool: Pool) -> Self:
        """The memory in this database; within a running event loop."""
        from langgraph.store.postgres.aio import AsyncPostgresStore

        # What is no JSON object comes as it is, to be judged here: the store would fail all that it reads with it.
        return cls(AsyncPostgresStore(pool, deserializer=_as_it_is), pool)

    async def history(self, account_id: UUID, profile: Profile) -> list[Rule]:
        """Every rule that there ever was, removed ones too, oldest first."""
        return in_order(await self._store.asearch(_namespace(account_id, profile), limit=_MOST_KEPT))

    async def rules(self, account_id: UUID, profile: Profile) -> list[Rule]:
        """The rules in force, oldest first."""
        if rules_cache.get() is not None:
            return (await self.in_force(account_id))[profile]
        return [rule for rule in await self.history(account_id, profile) if not rule.removed]

    async def learned(self, account_id: UUID, profile: Profile) -> list[Rule]:
        """Those of the rules in force that the memory model is shown, and may change."""
        return [rule for rule in await self.rules(account_id, profile) if not rule.is_corrected]

    async def fired(self, account_id: UUID) -> Mapping[tuple[Profile, str], Fired]:
        """By profile and key, the rules that were ever used, in force or not."""
        return await counted(self._pool, account_id)

    async def in_force(self, account_id: UUID) -> dict[Profile, list[Rule]]:
        """The rules in force of all profiles, in one look."""
        if (read := rules_cache.get()) and account_id in read:
            return read[account_id]
        found = await self._store.asearch(_namespace(account_id), limit=_MOST_KEPT * len(PROFILES))
        rules: dict[Profile, list[Rule]] = {
            profile: [rule for rule in in_order(i for i in found if i.namespace[-1] == profile) if not rule.removed]
            for profile in PROFILES
        }
        if read is not None:
            read[account_id] = rules
        return rules

    async def texts(self, account_id: UUID) -> dict[Profile, str]:
        """All profiles as prompts show them, in one look."""
        return {profile: render(rules) for profile, rules in (await self.in_force(account_id)).items()}

    async def knows(self, account_id: UUID, profile: Profile, item_id: UUID) -> bool:
        """Whether something was already learned from this item, or put before the person; then it is there to be told,
        too."""
        async with self._locked(account_id, profile) as conn:
            known = [rule for rule in await self.history(account_id, profile) if str(item_id) in rule.items]
            for rule in known:
                numbers = [n for n, each in enumerate(rule.versions, 1) if each["origin"].get("item") == str(item_id)]
                await self._note(conn, account_id, profile, rule, numbers[-1])
            return bool(known) or await self.held.is_known(conn, account_id, str(item_id))

    async def change(
        self, account_id: UUID, profile: Profile, stated: Rule, shown: list[Rule], tried: Sequence[Otherwise]
    ) -> bool:
        """Learn a rule, or hold it for the person if it undoes a decision of theirs.

        Args:
            stated: as `RuleChange.made` gives it.
            shown: the rules that it was made of, as `learned` gives them.
            tried: the decisions that a model has told that it undoes.

        Returns:
            False if the rules are others by now, and nothing was done.
        """
        async with self._locked(account_id, profile) as conn:
            if await self.learned(account_id, profile) != shown:
                return False
            broken = [*await self._broken(account_id, profile, stated), *tried]
            if broken:
                await self._hold(account_id, profile, stated, len(stated.history), broken)
            elif stated.history or len(await self.rules(account_id, profile)) < MOST_RULES:
                await self._put(account_id, profile, stated)
                await self._note(conn, account_id, profile, stated, stated.version)
        return True

    # By the person

    async def get(self, account_id: UUID, profile: Profile, key: str) -> Rule:
        """A rule with its history, in force or removed. Raises NoRule."""
        found = [rule for rule in await self.history(account_id, profile) if rule.key == key]
        if not found:
            raise NoRule(f"{profile} has no rule {key}")
        return found[0]

    async def find(self, account_id: UUID, prefix: str) -> tuple[Profile, Rule]:
        """The rule whose id begins with `prefix`, in whatever profile. Raises NoRule."""
        found = [
            (profile, rule)
            for profile in PROFILES
            for rule in await self.history(account_id, profile)
            if rule.key.startswith(prefix.lower())
        ]
        if len(found) != 1:
            what = "no rule" if not found else "more than one rule"
            raise NoRule(f"there is {what} whose id begins with {prefix}; `memory show` shows them")
        return found[0]

    async def add(
        self, account_id: UUID, profile: Profile, text: str, by: str, did: str = "You wrote this rule."
    ) -> Rule:
        """Add a rule. `did`: where it comes from. Raises BadRule: no text, too long a text, or too many rules."""
        async with self._locked(account_id, profile):
            return await self._add(account_id, profile, str(uuid4()), text, {"did": did, "by": by})

    async def correct(
        self, account_id: UUID, profile: Profile, key: str, text: str | None, origin: Mapping[str, str]
    ) -> None:
        """State the rule with this key by a correction, anew if there is one. A repeat changes nothing.

        What would undo a decision on other mail is held for the person, and the rule as it was decides nothing more:
        they have contradicted it.

        Args:
            text: None takes back what was learned from this mail, unless something else was learned since.
            origin: among others the ids of the `correction` and of its `mail`.

        Raises:
            BadRule: too many rules, or too long a text.
        """
        async with self._locked(account_id, profile) as conn:
            await self.held.outdated(conn, account_id, origin["mail"], origin["correction"])
            known = next((rule for rule in await self.history(account_id, profile) if rule.key == key), None)
            if known and any(each["origin"].get("correction") == origin["correction"] for each in known.versions):
                if text is not None and known.origin.get("correction") == origin["correction"]:
                    await self._note(conn, account_id, profile, known, known.version)
            elif text is not None:
                await self._state(conn, account_id, profile, Rule(key, text, dict(origin), now(), [], removed=False))
            elif known:
                await self._take_back(account_id, profile, known, {**origin, "took_back": True})
                mails = [each["origin"].get("mail") for each in known.versions]
                of_mail = [number for number, mail in enumerate(mails, 1) if mail == origin["mail"]]
                await self.lessons.take_back(conn, account_id, profile, key, of_mail)

    async def _state(self, conn: Connection, account_id: UUID, profile: Profile, said: Rule) -> None:
        """What a correction says, in place of what an earlier one did."""
        known = next((rule for rule in await self.history(account_id, profile) if rule.key == said.key), None)
        broken = await self._broken(account_id, profile, said)
        if broken:
            version = 0
            if known:
                version = known.version if known.removed else known.version + 1
            await self._hold(account_id, profile, said, version, broken)
            if known is None or known.removed:
                return
            stated = await self._restate(account_id, profile, known, said.origin, removed=True)
        elif known:
            stated = await self._restate(
                account_id, profile, known, said.origin, text=checked(said.text), removed=False
            )
        else:
            stated = await self._add(account_id, profile, said.key, said.text, said.origin)
        await self._note(conn, account_id, profile, stated, stated.version)

    async def keep(self, lesson: HeldLesson) -> Rule:
        """Learn what was held, as the person wants it. Returns the rule. Raises Conflict: they said so before, or the
        rule was changed since; BadRule: too many rules."""
        account_id, profile, change = lesson.account_id, lesson.profile, lesson.change
        async with self._locked(account_id, profile) as conn:
            await self.held.answer(conn, lesson, kept=True)
            there = [each for each in await self.history(account_id, profile) if each.key == change["key"]]
            if (there[0].version if there else 0) != change["version"]:
                raise Conflict("the rule that it is about was changed since; drop it, or change the rule yourself")
            if there:
                says = {"text": change["text"], "removed": change["removed"]}
                stated = await self._restate(account_id, profile, there[0], lesson.origin, **says)
            else:
                same = [rule for rule in await self.rules(account_id, profile) if rule.text == change["text"]]
                if same:
                    return same[0]
                stated = await self._add(account_id, profile, change["key"], change["text"], lesson.origin)
            await self._note(conn, account_id, profile, stated, stated.version)
        return stated

    async def drop(self, lesson: HeldLesson) -> None:
        """Learn nothing of what was held. Raises Conflict: the person said so, or otherwise, before."""
        async with self._pool.connection() as conn:
            await self.held.answer(conn, lesson, kept=False)

    async def _broken(self, account_id: UUID, profile: Profile, stated: Rule) -> list[Otherwise]:
        """The decisions on other mail that a rule would undo, as far as code can tell."""
        if profile != COUNTED:
            return []
        return undone(await self.rules(account_id, profile), stated, await decisions(self._pool, account_id))

    async def _hold(
        self, account_id: UUID, profile: Profile, stated: Rule, version: int, broken: Sequence[Otherwise]
    ) -> None:
        """Put before the person what they are to say of a rule, which has `version` by then."""
        source = str(stated.origin.get("correction") or stated.origin["item"])
        change = {"key": stated.key, "text": stated.text, "removed": stated.removed, "version": version}
        await self.held.hold(account_id, profile, source, change, stated.origin, broken)

    async def unlearn(self, lesson: Learned, by: str) -> Rule:
        """Take back exactly this lesson: the rule says what it would without it. Returns the rule. Raises Conflict: it
        was taken back before, or the person has changed the rule since; NoRule."""
        account_id, profile = lesson.account_id, lesson.profile
        async with self._locked(account_id, profile) as conn:
            rule = await self.get(account_id, profile, lesson.rule)
            undone = {each["origin"].get("undid") for each in rule.versions}
            if lesson.taken_back_at or lesson.version in undone:
                raise Conflict("that was taken back already")
            if any(is_by_hand(each["origin"]) for each in rule.versions[lesson.version :]):
                now = "is removed" if rule.removed else f"says {rule.text!r}"
                raise Conflict(f"you changed that rule since, and it {now}; change it in your memory")
            before = without(rule.versions, {*undone, lesson.version})
            origin = {"did": f"You took back what version {lesson.version} had learned.", "by": by}
            changes = {"text": rule.text, "removed": True} if before is None else before
            stated = await self._restate(account_id, profile, rule, {**origin, "undid": lesson.version}, **changes)
            await self.lessons.take_back(conn, account_id, profile, rule.key, [lesson.version])
        return stated

    async def _note(self, conn: Connection, account_id: UUID, profile: Profile, rule: Rule, number: int) -> None:
        stated = rule.versions[number - 1]
        said = {"version": number, "text": stated["text"], "removed": stated["removed"]}
        await self.lessons.note(conn, account_id, profile, rule.key, said)

    async def edit(
        self, account_id: UUID, profile: Profile, key: str, text: str, by: str, *, version: int | None = None
    ) -> Rule:
        """Put other words in place of a rule's.

        Args:
            version: the version that the person saw; None changes whichever there is.

        Raises:
            NoRule.
            BadRule: no text, or too long a text.
            Conflict: the rule was changed or removed since.
        """
        origin = {"did": "You changed this rule.", "by": by}
        async with self._locked(account_id, profile) as conn:
            rule = await self._in_force(account_id, profile, key, version)
            await self.lessons.is_known(conn, account_id, profile, rule.key)
            return await self._restate(account_id, profile, rule, origin, text=checked(text))

    async def remove(
        self, account_id: UUID, profile: Profile, key: str, by: str, *, version: int | None = None
    ) -> Rule:
        """Take a rule out of force; it can be reverted to. Raises NoRule, Conflict."""
        origin = {"did": "You removed this rule.", "by": by}
        async with self._locked(account_id, profile) as conn:
            rule = await self._in_force(account_id, profile, key, version)
            await self.lessons.is_known(conn, account_id, profile, rule.key)
            return await self._restate(account_id, profile, rule, origin, removed=True)

    async def revert(self, account_id: UUID, profile: Profile, key: str, to: int, by: str) -> Rule:
        """Put a rule back to what it said in an earlier version, as a new version. Raises NoRule: no such rule or no
        such version; Conflict: that is what it says now."""
        origin = {"did": f"You put this rule back to version {to}.", "by": by}
        async with self._locked(account_id, profile) as conn:
            rule = await self.get(account_id, profile, key)
            if not 1 <= to <= rule.version:
                raise NoRule(f"rule {key} has no version {to}; it has {rule.version}")
            old = rule.versions[to - 1]
            if (old["text"], old["removed"]) == (rule.text, rule.removed):
                raise Conflict(f"that is what rule {key} says now")
            await self.lessons.is_known(conn, account_id, profile, rule.key)
            return await self._restate(account_id, profile, rule, origin, text=old["text"], removed=old["removed"])

    async def bring_in(self, account_id: UUID, file: str, by: str, seen: str) -> list[markdown.FileChange]:
        """Make the rules those of a Markdown file, in each profile that it has; what it adds or changes is by hand.

        Args:
            seen: `markdown.seen` of the changes that the person was shown.

        Raises:
            BadRule: it can't be read; nothing was changed.
            Conflict: it would change something else by now; nothing was changed.
        """
        wanted = markdown.read(file)
        did = {"add": "You brought this rule in from a file.", "change": "You changed this rule in a file."}
        async with self._locked(account_id, *wanted) as conn:
            changes = markdown.changes(await self.in_force(account_id), wanted)
            if markdown.seen(changes) != seen:
                raise Conflict("your rules were changed since you looked; look again at what this file would change")
            for change in changes:
                origin = {"did": did.get(change.does, "You left this rule out of a file."), "by": by}
                if change.rule is None:
                    rule = Rule(str(uuid4()), change.text, origin, now(), [], removed=False)
                    await self._put(account_id, change.profile, rule)
                else:
                    says = {"text": change.text, "removed": change.does == "remove"}
                    await self.lessons.is_known(conn, account_id, change.profile, change.rule.key)
                    await self._restate(account_id, change.profile, change.rule, origin, **says)
        return changes

    async def learned_from(
        self, account_id: UUID, items: Collection[UUID], mail_id: str
    ) -> list[tuple[Profile, dict[str, Any]]]:
        """The versions of rules that came of these inbox items, or of a correction of this mail."""
        ids = {str(item) for item in items}
        return [
            (profile, version)
            for profile in PROFILES
            for rule in await self.history(account_id, profile)
            for version in rule.versions
            if version["origin"].get("item") in ids or version["origin"].get("mail") == mail_id
        ]

    async def naming(self, account_id: UUID, named: str) -> list[tuple[Profile, Rule]]:
        """The rules, removed ones too, of which a version, its origin or its key matches a pattern of Postgres's."""
        query = "select prefix, key from store s where prefix like %s and (key || ' ' || value::text) ~* %s"
        rows = await fetched(self._pool, query, (f"email_assistant.{account_id}.%", named))
        keys = {(row["prefix"].rpartition(".")[2], row["key"]) for row in rows}
        return [
            (profile, rule)
            for profile in PROFILES
            for rule in (await self.history(account_id, profile) if keys else [])
            if (profile, rule.key) in keys
        ]

    async def forget(self, conn: Connection, account_id: UUID, named: str) -> None:
        """Delete what `naming` finds, with all its versions and what is told of it, in a transaction that has taken
        `lock`."""
        for profile, rule in await self.naming(account_id, named):
            place = (account_id, profile, rule.key)
            prefix = ".".join(_namespace(account_id, profile))
            await conn.execute("delete from store where prefix = %s and key = %s", (prefix, rule.key))
            await self.lessons.forget(conn, *place)
            await trial.forget_rule(conn, *place)
        await self.held.forget(conn, account_id, named)

    async def mails_went(self, conn: Connection, account_id: UUID, gone: Collection[str]) -> None:
        """Rules that came of these mails and items stay, and tell no longer whose mail that was and about what; in a
        transaction that has taken `lock`."""
        for profile in PROFILES:
            for rule in await self.history(account_id, profile):
                if (bare := without_mail(rule, gone)) != rule:
                    place = (".".join(_namespace(account_id, profile)), rule.key)
                    await conn.execute(
                        "update store set value = %s where prefix = %s and key = %s", (Jsonb(_value(bare)), *place)
                    )
        await self.held.mails_went(conn, account_id, gone)

    @asynccontextmanager
    async def _locked(self, account_id: UUID, *profiles: Profile) -> AsyncIterator[Connection]:
        """One change to a profile at a time, in whatever process; in a transaction."""
        async with self._one_change, self._pool.connection() as conn, conn.transaction():
            await lock(conn, account_id, *profiles)
            yield conn

    async def _in_force(self, account_id: UUID, profile: Profile, key: str, version: int | None) -> Rule:
        rule = await self.get(account_id, profile, key)
        if rule.removed:
            raise Conflict(f"rule {key} is removed; revert it to bring it back")
        if version is not None and version != rule.version:
            raise Conflict(f"rule {key} was changed since: it now says {rule.text!r}")
        return rule

    async def _add(self, account_id: UUID, profile: Profile, key: str, text: str, origin: Mapping[str, str]) -> Rule:
        if len(await self.rules(account_id, profile)) >= MOST_RULES:
            raise BadRule(f"a profile holds {MOST_RULES} rules at most; remove one first")
        rule = Rule(key, checked(text), dict(origin), now(), [], removed=False)
        await self._put(account_id, profile, rule)
        return rule

    async def _restate(
        self, account_id: UUID, profile: Profile, rule: Rule, origin: Mapping[str, Any], **changes: Any
    ) -> Rule:
        """Make another version of a rule."""
        stated = replace(rule, **changes, origin=dict(origin), at=now(), history=rule.versions)
        await self._put(account_id, profile, stated)
        return stated

    async def _take_back(self, account_id: UUID, profile: Profile, rule: Rule, origin: Mapping[str, Any]) -> None:
        stands = standing(rule.versions)
        if not stands or stands[-1]["origin"].get("mail") != origin["mail"]:
            return
        others = [version for version in stands if version["origin"].get("mail") != origin["mail"]]
        before = others[-1] if others else {"text": rule.text, "removed": True}
        await self._restate(account_id, profile, rule, origin, text=before["text"], removed=before["removed"])

    async def _put(self, account_id: UUID, profile: Profile, rule: Rule) -> None:
        await self._store.aput(_namespace(account_id, profile), rule.key, _value(rule), index=False)


def _value(rule: Rule) -> dict[str, Any]:
    """As the store keeps it."""
    return {**rule.versions[-1], "history": rule.history}


async def lock(conn: Connection, account_id: UUID, *profiles: Profile) -> None:
    """Have no other change to these profiles until the caller's transaction ends."""
    for each in sorted(profiles):
        await conn.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{account_id}/{each}",))


def _namespace(account_id: UUID, *profile: Profile) -> tuple[str, ...]:
    """Of a profile, or of all that the account has."""
    return ("email_assistant", str(account_id), *profile)  # not the address: labels refuse "."
