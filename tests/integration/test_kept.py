"""What is kept of the work on a mail once it is done, and that nothing of it begins again."""

from typing import Any

from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.home import Home, OpenHome, in_one_loop
from tests.integration.scene import DONE, reply

pytestmark = in_one_loop

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
REFUSES_ENDS = """
create function refuse_ends() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
create trigger refuse_ends before update on runs for each row
when (new.state = 'done') execute function refuse_ends()"""


async def kept(home: Home) -> dict[str, int]:
    """Rows of checkpoints, table by table."""
    found = {}
    for table in TABLES:
        [row] = await home.sql(f"select count(*) as n from {table}")
        found[table] = row["n"]
    return found


async def accepted(home: Home, model: Model) -> str:
    """A mail whose reply was accepted and sent."""
    model.script([[reply("Friday is fine."), DONE]])
    mail_id = await home.receive()
    [item] = await home.pending()
    await home.answer(item, "accept")
    return mail_id


async def test_checkpoints_go_with_the_end_and_what_was_done_is_still_told(
    home: Home, google: Google, model: Model
) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    mail_id = await home.receive()
    [item] = await home.pending()
    assert all((await kept(home)).values())

    await home.answer(item, "accept")

    assert await home.is_done(mail_id)
    assert not any((await kept(home)).values())
    told = await home.item(item)
    assert (told.state, "Does Friday suit you?" in told.mail_text) == ("approved", True)
    [run] = await home.sql("select state, pruned, input from runs")
    assert (run["state"], run["pruned"], run["input"]["mail"]) == ("done", True, mail_id)


async def test_a_mail_that_is_ignored_leaves_no_checkpoint(home: Home, model: Model) -> None:
    model.on_triage("ignore")
    mail_id = await home.receive()
    assert await home.is_done(mail_id)
    assert not any((await kept(home)).values())


async def test_what_is_over_is_never_started_again(home: Home, google: Google, model: Model) -> None:
    await accepted(home, model)
    asked = len(model.requests)
    [row] = await home.sql("select id from threads where chat_id is null")

    for _ in range(2):
        await home.works.advance(row["id"])
        await home.carry_on()

    assert (len(google.sent), len(model.requests)) == (1, asked)


async def test_they_stay_as_long_as_the_end_is_not_stored(home: Home, google: Google, model: Model) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    mail_id = await home.receive()
    [item] = await home.pending()
    await home.sql(REFUSES_ENDS)
    await home.decide(item, "accept")
    await home.step()
    assert not await home.is_done(mail_id)
    assert len(google.sent) == 1
    assert all((await kept(home)).values())

    await home.sql("drop trigger refuse_ends on runs")
    await home.sql("update threads set not_before = '-infinity'")
    await home.carry_on()

    assert await home.is_done(mail_id)
    assert len(google.sent) == 1
    assert not any((await kept(home)).values())


async def test_they_are_kept_for_as_long_as_the_person_wants(open_home: OpenHome, google: Google, model: Model) -> None:
    async with open_home(keep_checkpoints_days=3) as home:
        await accepted(home, model)
        await home.works.tidy()
        assert all((await kept(home)).values())

        await home.sql("update runs set ended_at = ended_at - interval '4 days'")
        await home.works.tidy()

        assert not any((await kept(home)).values())


async def test_those_of_what_newer_mail_took_the_place_of_go_too(home: Home, google: Google, model: Model) -> None:
    model.script(lambda _: [reply("Friday is fine."), DONE])
    first = await home.receive()
    before = await kept(home)
    await home.receive(thread=google.message(first).thread_id)
    assert (await kept(home))["checkpoints"] > before["checkpoints"]

    await home.works.tidy()

    assert await kept(home) == before
    [item] = await home.pending()
    await home.answer(item, "accept")
    assert len(google.sent) == 1


async def test_those_of_what_may_come_back_stay(home: Home, google: Google, model: Model) -> None:
    model.script([[reply("Friday is fine."), DONE]])
    mail_id = await home.receive()
    before: dict[str, Any] = await kept(home)
    google.person_moves(mail_id, out_of=["INBOX"])
    await home.sync()
    await home.carry_on()
    assert await home.pending() == []

    await home.works.tidy()

    assert await kept(home) == before
