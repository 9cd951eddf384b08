"""A database of each earlier schema, upgraded: what waited there, was decided or was being carried out is sent once."""

import json
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from email_assistant.app import open_app
from email_assistant.daemon import open_daemon
from email_assistant.db.migrate import known_migrations, migrate
from email_assistant.db.pool import session_settings
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import DONE, reply

MIGRATIONS = sorted(known_migrations())
TABLES = (
    *("accounts", "threads", "runs", "mails", "inbox_items", "effects"),
    *("checkpoints", "checkpoint_blobs", "checkpoint_writes"),
)
"""That a mail on its way stands in, in the order of their references."""
STATES = ("waiting", "decided", "acting")
CASES = [
    # The oldest schema in the first lane, as the one from which most is to be done; all others in the second.
    pytest.param(number, id=name, marks=[pytest.mark.long] if number else [])
    for number, name in enumerate(MIGRATIONS[:-1])
]


def on(url: str) -> psycopg.Connection[dict[str, Any]]:
    return psycopg.connect(url, options=session_settings(url)["options"], row_factory=dict_row)


def put_back(now: str, then: str) -> None:
    """Write the rows that stand in one database into the tables of another, earlier one, as far as these have their
    columns; with what the columns that came since stood for before: their defaults."""
    with on(now) as source, on(then) as target:
        [user] = target.execute("select id from users").fetchall()
        for table in TABLES:
            columns = [
                row["column_name"]
                for row in target.execute(
                    """select column_name from information_schema.columns where table_schema = current_schema
                       and table_name = %s and is_generated = 'NEVER' and is_identity = 'NO'""",
                    (table,),
                )
            ]
            for row in source.execute(sql.SQL("select to_jsonb(t) as row from {} t").format(sql.Identifier(table))):
                given = row["row"] | ({"user_id": str(user["id"])} if "user_id" in row["row"] else {})
                kept = sql.SQL(", ").join(sql.Identifier(name) for name in columns if name in given)
                target.execute(
                    sql.SQL("insert into {0} ({1}) select {1} from jsonb_populate_record(null::{0}, %s)").format(
                        sql.Identifier(table), kept
                    ),
                    (Jsonb(given),),
                )


@in_one_loop
@pytest.mark.parametrize("number", CASES)
async def test_what_was_on_its_way_is_sent_once(
    open_home: OpenHome,
    google: Google,
    model: Model,
    database_url: str,
    empty_database_url: str,
    number: int,
) -> None:
    model.script(lambda request: [reply(f"About {request.mail.subject}."), DONE])
    async with open_home() as home:
        mails = {state: await home.receive(state) for state in STATES}
        items = {item.mail_id: item for item in await home.pending()}
        await home.decide(items[mails["acting"]], "accept")
        google.fault("drafts.send", status=503)
        await home.step()
        await home.decide(items[mails["decided"]], "accept")
        states = {row["gmail_id"]: row["state"] for row in await home.sql("select gmail_id, state from mails")}
        assert {state: states[mail] for state, mail in mails.items()} == {
            "waiting": "waiting",
            "decided": "waiting",
            "acting": "acting",
        }
        account_id, settings = home.account_id, home.app.settings
    await migrate(empty_database_url, names=MIGRATIONS[: number + 1])
    put_back(database_url, empty_database_url)

    async with open_app(settings, empty_database_url) as app, open_daemon(app) as works:
        upgraded = Home(app, works, google, account_id)
        await upgraded.carry_on()
        [item] = await upgraded.pending()
        assert item.mail_id == mails["waiting"]
        await upgraded.answer(item, "accept")
        later = await upgraded.receive("later")
        [item] = await upgraded.pending()
        await upgraded.answer(item, "accept")

        for mail in (*mails.values(), later):
            assert await upgraded.is_done(mail), json.dumps(mails)
        assert sorted(sent.text for sent in google.sent) == [f"About {name}." for name in sorted((*STATES, "later"))]
        assert google.drafts == []
