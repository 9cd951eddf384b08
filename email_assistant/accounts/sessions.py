"""The browsers that are logged in. All SQL on `sessions` stands here.

A session is a random secret that only its browser has; its row holds a digest. It ends by logging out, by age, and with
the token that it was begun with.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from email_assistant.db.pool import Pool, fetched_as
from email_assistant.errors import AssistantError

LONGEST: Final = timedelta(days=30)
"""A session ends then, however much it is used, unless the token is given again."""
_UNUSED: Final = timedelta(days=7)
"""A session that is not used for so long ends."""
_NOTED: Final = timedelta(minutes=10)
"""How exactly it is known when a session was last used: each note of it is a write."""
_BYTES: Final = 32
_COLUMNS: Final = "id, browser, began_at, seen_at, expires_at"


class NoSession(AssistantError):
    """There is no such session, or it is over."""

    status = HTTPStatus.NOT_FOUND


@dataclass(frozen=True, slots=True)
class Session:
    id: UUID
    browser: str
    """What the browser said that it is, such as "Firefox on Linux"."""
    began_at: datetime
    """When the token was given, last."""
    seen_at: datetime
    expires_at: datetime


class Sessions:
    """
    Args:
        key: a secret that is not in the database; without it, the token can't be guessed from what stands there.
    """

    def __init__(self, pool: Pool, key: str) -> None:
        self._pool = pool
        self._key = key.encode()

    async def begin(self, user_id: UUID, token: str, host: str, browser: str) -> str:
        """A new session's secret, for its browser, which shows it at this host only."""
        secret = secrets.token_urlsafe(_BYTES)
        await self._sessions(
            f"""insert into sessions (user_id, secret_hash, token_mark, host, browser, expires_at)
                values (%s, %s, %s, %s, %s, clock_timestamp() + %s) returning {_COLUMNS}""",
            user_id,
            _hash(secret),
            self._mark(token),
            host,
            browser,
            _UNUSED,
        )
        return secret

    async def find(self, secret: str, token: str, host: str) -> Session | None:
        """The session that a browser shows the secret of, begun with this token at this host; its use is noted.

        Shown at another host, a secret was taken from its browser.
        """
        found = await self._sessions(
            f"""select {_COLUMNS} from sessions
                where secret_hash = %s and token_mark = %s and host = %s and expires_at > clock_timestamp()""",
            _hash(secret),
            self._mark(token),
            host,
        )
        if not found:
            return None
        if datetime.now(UTC) - found[0].seen_at > _NOTED:
            await self._note_use(found[0])
        return found[0]

    async def is_open(self, session: Session) -> bool:
        """Whether it has not ended meanwhile."""
        return bool(
            await self._sessions(
                f"select {_COLUMNS} from sessions where id = %s and expires_at > clock_timestamp()", session.id
            )
        )

    async def renew(self, session: Session) -> None:
        """Count its age from now on: the token was given again."""
        await self._sessions(
            f"""update sessions set began_at = clock_timestamp(), seen_at = clock_timestamp(),
                       expires_at = clock_timestamp() + %s
                where id = %s and expires_at > clock_timestamp() returning {_COLUMNS}""",
            _UNUSED,
            session.id,
        )

    async def of_user(self, user_id: UUID) -> list[Session]:
        """Those that are open, the one that was used last first."""
        return await self._sessions(
            f"""select {_COLUMNS} from sessions where user_id = %s and expires_at > clock_timestamp()
                order by seen_at desc, id""",
            user_id,
        )

    async def end(self, user_id: UUID, session_id: UUID) -> Session:
        """Raises NoSession."""
        ended = await self._sessions(
            f"delete from sessions where user_id = %s and id = %s returning {_COLUMNS}", user_id, session_id
        )
        if not ended:
            raise NoSession("this browser is not logged in any more")
        return ended[0]

    async def end_all(self, user_id: UUID) -> int:
        """How many there were."""
        return len(await self._sessions(f"delete from sessions where user_id = %s returning {_COLUMNS}", user_id))

    async def end_those_of_others(self, user_id: UUID, token: str, name: str | None) -> None:
        """End those of other tokens, and those begun at a name of this machine that is not in use now: whoever else
        listens there may have been shown them."""
        await self._sessions(
            f"""delete from sessions where user_id = %s
                and (token_mark <> %s or host like '%%.localhost' and host is distinct from %s) returning {_COLUMNS}""",
            user_id,
            self._mark(token),
            name,
        )

    async def forget_expired(self) -> None:
        await self._sessions(f"delete from sessions where expires_at <= clock_timestamp() returning {_COLUMNS}")

    async def _note_use(self, session: Session) -> None:
        await self._sessions(
            f"""update sessions set seen_at = clock_timestamp(),
                       expires_at = least(clock_timestamp() + %s, began_at + %s)
                where id = %s and seen_at < clock_timestamp() - %s and expires_at > clock_timestamp()
                returning {_COLUMNS}""",
            _UNUSED,
            LONGEST,
            session.id,
            _NOTED,
        )

    def _mark(self, token: str) -> bytes:
        return hmac.new(self._key, b"session of the token " + token.encode(), hashlib.sha256).digest()

    async def _sessions(self, query: str, *parameters: Any) -> list[Session]:
        return await fetched_as(Session, self._pool, query, parameters)


def _hash(secret: str) -> bytes:
    """Of so many random bits, a plain digest does (unlike of a password)."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
