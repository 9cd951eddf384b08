"""What a person sees of the program itself: whether it is there, what it does, and what is whose."""

from tests.doubles.daemon import Daemon
from tests.doubles.google import Google
from tests.doubles.model import Model
from tests.integration.conftest import Start
from tests.integration.scene import ADA, BOB, DONE, reply


class TestAccountAdded:
    def test_it_begins_in_shadow_mode_and_says_how_to_end_that(self, connect: Start, google: Google) -> None:
        program = connect()
        program.cli("account", "remove", ADA, "--yes")
        token = google.write_token_file(program.home / "token.json")
        said = program.cli("account", "add", ADA, "--token-file", str(token))
        assert program.cli("account", "list", "--json")["items"][0]["mode"] == "shadow"
        assert "shadow mode: you are shown what would have been done" in said
        assert f"`email-assistant account mode {ADA} send` ends that" in said

    def test_adding_it_again_keeps_its_mode(self, connect: Start, google: Google) -> None:
        program = connect()
        token = google.write_token_file(program.home / "token.json")
        program.cli("account", "add", ADA, "--token-file", str(token))
        assert program.cli("account", "list", "--json")["items"][0]["mode"] == "send"


class TestNobodyAtHome:
    def test_every_answer_says_so(self, connect: Start, google: Google, model: Model) -> None:
        program = connect()
        model.script(lambda _: [reply("Friday is fine."), DONE])
        assert program.cli("status").startswith("Nothing is running yet; start `email-assistant up`.")
        for subject in ("Lunch?", "Dinner?"):
            google.deliver(BOB, subject, "Does Friday suit you?")
        program.up()
        first, second = program.pending(2)
        assert program.cli("status", "--json")["running"] is True
        assert "✓ at work: mail is worked on" in program.run("doctor").stdout
        assert "running" not in program.http.get("/").text
        assert "running" not in program.cli("inbox", "show", first["id"])

        program.kill()
        program.api()

        program.wait_for(lambda: program.cli("status").startswith("Nothing is running since "), "it is noticed")
        doctor = program.run("doctor")
        assert (doctor.returncode, "✗ at work: nothing is running since" in doctor.stdout) == (1, True)
        page = program.http.get("/").text
        assert "Nothing is running since" in page
        assert "What you answer is kept until then." in page
        taken = program.cli("inbox", "accept", first["id"])
        assert "It is kept, and done once something works on it: nothing is running since" in taken
        assert "start `email-assistant up`" in taken
        told = program.decide(second["id"], "accept").json()
        assert told["notice"].startswith("It is kept, and done once something works on it: nothing is running since")
        assert google.sent == []
        program.stop()

        program.up()
        program.wait_for(lambda: len(google.sent) == 2, "what was kept is done")

    def test_who_works_on_another_provider_is_not_at_home_here(self, connect: Start) -> None:
        program = connect()
        program.worker()
        program.wait_for(lambda: program.cli("status", "--json")["running"], "it works")
        program.environment["EMAIL_ASSISTANT_GOOGLE_NAME"] = "another"
        assert program.cli("status", "--json")["running"] is False

    def test_one_that_stops_in_good_order_is_gone_at_once(self, daemon: Daemon) -> None:
        daemon.stop()
        assert daemon.cli("status", "--json")["running"] is False


class TestStatus:
    def test_it_counts_items(self, start: Start, google: Google, model: Model) -> None:
        daemon = start()
        model.script(lambda _: [reply("One."), reply("Two.")])
        google.deliver(BOB, "Lunch?", "Does Friday suit you?")
        daemon.pending(2)
        assert "Waiting for you: 2\n" in daemon.cli("status")
        assert daemon.cli("status", "--json")["waiting"] == 2

    def test_an_unexpected_error_of_a_poll_stands_there(self, start: Start, google: Google) -> None:
        daemon = start()
        google.fault("history.list", body={"history": "no list", "historyId": "9"})
        daemon.wait_for(lambda: "unexpected " in daemon.cli("status"), "status says so")
