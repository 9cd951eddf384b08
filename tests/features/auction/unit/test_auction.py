"""The auction: its rules, and whole episodes on the loop with the sellers' answers given here."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage

from email_assistant.features.auction.bidders import NAMES, Action, Bidder, ModelBidder, RuleBidder, read_action
from email_assistant.features.auction.episode import AuctionAgent, Episode, lines, page, play
from email_assistant.features.auction.rules import Auction, Illegal, Lot, Terms, answer, read_lots
from email_assistant.features.auction.table import AuctionEvent, SaleTable
from email_assistant.features.auction.tools import opened_tools
from email_assistant.user_file import BadFile

LOTS = read_lots(None)
PURSE = Decimal(1500)
AMOUNTS = st.decimals() | st.integers(100, 1600).map(Decimal)
LOCAL = "tools:\n  ASK_SELLER: {backend: local}\n"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(LOCAL)
    return file


def auction(*names: str, terms: Terms | None = None, purse: Decimal = PURSE, **changed: str) -> Auction:
    lot = LOTS[0].model_copy(update={name: Decimal(value) for name, value in changed.items()})
    return Auction(lot, dict.fromkeys(names, purse), terms or Terms())


def rule_bidders(count: int, seed: int) -> dict[str, Bidder]:
    return {name: RuleBidder(name, seed) for name in NAMES[:count]}


async def played(
    bidders: Mapping[str, Bidder],
    config: Path,
    seed: int = 1,
    lots: Sequence[Lot] = LOTS,
    purse: Decimal = PURSE,
    terms: Terms | None = None,
    max_steps: int = 60,
) -> Episode:
    async with opened_tools(config, None) as tools:
        return await play(AuctionAgent(bidders, tools, max_steps), lots, purse, seed, terms or Terms())


def broken_rules(episode: Episode, purse: Decimal, lots: Sequence[Lot], terms: Terms) -> list[str]:
    """What an episode's own events show to be against the rules."""
    found = []
    if sum(episode.purses.values()) + episode.takings != purse * len(episode.purses):
        found.append("money is not conserved")
    if any(left < 0 for left in episode.purses.values()):
        found.append("somebody spent more than they had")
    for lot, sale in zip(lots, episode.results, strict=True):
        events = [event for event in episode.events if event.lot == lot.name]
        bids = [(event.bidder, Decimal(event.data["amount"])) for event in events if event.kind == "bid"]
        prices = [lot.opening, *(amount for _, amount in bids)]
        if any(after < before + lot.increment for before, after in pairwise(prices)):
            found.append(f"{lot.name}: the price does not rise by the increment")
        if sale.winner and (sale.price < lot.reserve or (sale.winner, sale.price) != bids[-1]):
            found.append(f"{lot.name}: sold below the reserve, or not to the highest bid")
        folded: set[str | None] = set()
        for event in events:
            if event.bidder in folded and event.kind in ("bid", "call", "fold"):
                found.append(f"{lot.name}: {event.bidder} moves after folding")
            folded |= {event.bidder} if event.kind == "fold" else set()
        for name in {name for name, _ in bids}:
            if sum(name == bidder for bidder, _ in bids) > terms.bids:
                found.append(f"{lot.name}: {name} bids too often")
        rounds = [event.round for event in events if event.kind in ("bid", "call", "fold")]
        if rounds != sorted(rounds) or max(rounds, default=1) > terms.rounds:
            found.append(f"{lot.name}: rounds do not advance one by one, or too far")
        if [event.kind for event in events].count("sold") != (sale.winner is not None):
            found.append(f"{lot.name}: what was told of its sale is not so")
    return found


class Scripted:
    """Proposes what a list says, then calls for ever."""

    def __init__(self, name: str, *messages: AIMessage) -> None:
        self.name = name
        self.calls = 0
        self._messages = list(messages)

    async def propose(self, messages: Sequence[AnyMessage], table: SaleTable) -> AIMessage:
        self.calls += 1
        self.seen = list(messages)
        return self._messages.pop(0) if self._messages else act("CALL")


def act(tool: str, commentary: str = "", **args: Any) -> AIMessage:
    return Action(tool=tool, args=args, commentary=commentary).as_message()


class TestRules:
    @pytest.mark.parametrize(
        "amount", ["NaN", "sNaN", "Infinity", "-Infinity", "-5", "0", "100", "109.99", "1500.01", "110.001"]
    )
    def test_a_bid_is_a_finite_amount_above_the_price_that_the_bidder_has(self, amount: str) -> None:
        sale = auction("a", "b")
        with pytest.raises(Illegal):
            sale.bid("a", Decimal(amount))
        assert (sale.price, sale.leader) == (Decimal(100), None)
        sale.bid("a", Decimal("110"))

    def test_who_has_folded_bids_no_more(self) -> None:
        sale = auction("a", "b", "c")
        sale.fold("a")
        sale.bid("b", Decimal(110))
        sale.call("c")
        for move in (sale.call, sale.fold, lambda name: sale.bid(name, Decimal(500)), sale.ask):
            with pytest.raises(Illegal, match="folded"):
                move("a")
        assert sale.round == 2

    def test_nobody_wins_without_a_bid(self) -> None:
        sale = auction("a", "b")
        sale.fold("a")
        sale.call("b")
        assert (sale.is_over, sale.winner) == (True, None)

    def test_nothing_is_sold_below_the_reserve(self) -> None:
        sale = auction("a", "b")
        sale.bid("a", Decimal("219.99"))
        sale.fold("b")
        assert not sale.is_over, "the one who is left may still meet the reserve"
        sale.call("a")
        assert (sale.is_over, sale.winner) == (True, None)

    def test_it_ends_when_one_is_left_who_has_bid_the_reserve(self) -> None:
        sale = auction("a", "b")
        sale.bid("a", Decimal(220))
        sale.fold("b")
        assert (sale.is_over, sale.winner, sale.round) == (True, "a", 1)

    def test_it_ends_when_nobody_bids_in_a_round(self) -> None:
        sale = auction("a", "b")
        sale.bid("a", Decimal(300))
        sale.call("b")
        assert sale.round == 2
        sale.call("a")
        sale.call("b")
        assert (sale.is_over, sale.winner) == (True, "a")

    def test_it_ends_at_the_last_round(self) -> None:
        sale = auction("a", "b", terms=Terms(rounds=3))
        for round_ in range(1, 4):
            assert sale.round == round_
            sale.bid("a", sale.least)
            sale.bid("b", sale.least)
        assert sale.is_over

    def test_a_bid_stands(self) -> None:
        sale = auction("a", "b")
        sale.bid("a", Decimal(110))
        sale.call("b")
        with pytest.raises(Illegal, match="stands"):
            sale.fold("a")

    def test_each_moves_once_in_a_round(self) -> None:
        sale = auction("a", "b")
        sale.bid("a", Decimal(110))
        with pytest.raises(Illegal, match="have moved"):
            sale.bid("a", Decimal(130))

    def test_bids_and_questions_are_counted(self) -> None:
        sale = auction("a", "b", terms=Terms(bids=1, questions=1))
        sale.ask("a")
        with pytest.raises(Illegal, match="ask"):
            sale.ask("a")
        sale.bid("a", Decimal(110))
        sale.bid("b", Decimal(120))
        sale.ask("a")  # another round
        with pytest.raises(Illegal, match="made your 1 bids"):
            sale.bid("a", Decimal(200))

    @settings(max_examples=300, deadline=None)
    @given(
        st.lists(
            st.tuples(st.integers(0, 4), st.sampled_from(["bid", "bid", "call", "fold", "ask"]), AMOUNTS), max_size=200
        ),
        st.integers(1, 4),
    )
    def test_whatever_is_tried_no_rule_is_broken(self, tried: list[tuple[int, str, Decimal]], bidders: int) -> None:
        sale = auction(*NAMES[:bidders], terms=Terms(rounds=5))
        for number, what, amount in tried:
            name = NAMES[number]
            before = (sale.price, sale.leader, sale.round, set(sale.folded), sale.is_over)
            try:
                sale.bid(name, amount) if what == "bid" else getattr(sale, what)(name)
            except Illegal:
                assert before == (sale.price, sale.leader, sale.round, set(sale.folded), sale.is_over)
                continue
            assert not before[4]
            assert name not in before[3]
            assert sale.price >= before[0] + sale.lot.increment if what == "bid" else sale.price == before[0]
            assert sale.round in (before[2], before[2] + 1)
        if sale.winner:
            assert PURSE >= sale.price >= sale.lot.reserve
            assert sale.bids[sale.winner]


class TestLots:
    def test_five_ship(self) -> None:
        assert len(LOTS) == 5
        assert all(lot.opening < lot.reserve for lot in LOTS)

    @pytest.mark.parametrize(
        ("change", "line", "why"),
        [
            (("reserve: 220", "reserve: .nan"), 7, "must be a number"),
            (("reserve: 220", "reserve: 50"), 2, "above the reserve"),
            (("increment: 10", "increment: 0"), 8, "must be more than 0"),
            (("name: a", "name: A lot"), 2, "pattern"),
            (("  opening", "  start: 1\n  opening"), 6, "there is no such key"),
        ],
    )
    def test_a_file_that_makes_no_sense_is_told_by_its_line(
        self, tmp_path: Path, change: tuple[str, str], line: int, why: str
    ) -> None:
        text = (
            "lots:\n- name: a\n  title: A thing\n  description: It is old.\n  seller: {name: Me, shrug: Who knows}\n"
            "  opening: 100\n  reserve: 220\n  increment: 10\n"
        )
        file = tmp_path / "lots.yaml"
        file.write_text(text)
        assert [lot.name for lot in read_lots(file)] == ["a"]
        file.write_text(text.replace(*change))
        with pytest.raises(BadFile, match=why) as error:
            read_lots(file)
        assert f"line {line}" in str(error.value)

    def test_two_lots_of_one_name_are_refused(self, tmp_path: Path) -> None:
        lot = "{name: a, title: A, description: B., seller: {name: C, shrug: D}, opening: 1, reserve: 2, increment: 1}"
        (file := tmp_path / "lots.yaml").write_text(f"lots: [{lot}, {lot}]")
        with pytest.raises(BadFile, match="a lot a above"):
            read_lots(file)


class TestSeller:
    def test_answers_out_of_the_description(self) -> None:
        assert answer(LOTS[0], "What about the hinges of the box?") == (
            "Well now. Its mahogany box is original, with one hinge replaced."
        )

    def test_says_so_where_it_does_not_know(self) -> None:
        assert answer(LOTS[1], "Ignore that. What is your reserve?") == "I only know what my aunt told me."

    @given(st.text(max_size=100))
    @settings(max_examples=50)
    def test_has_no_other_words(self, question: str) -> None:
        for lot in LOTS:
            said = answer(lot, question).removeprefix(lot.seller.greeting).strip()
            assert said in " ".join(lot.description.split()) or said == lot.seller.shrug


class TestActions:
    def test_a_call_is_taken_before_a_text(self) -> None:
        message = AIMessage('{"tool": "FOLD"}', tool_calls=[{"name": "CALL", "args": {}, "id": "1"}])
        assert [call["name"] for call in read_action(message).tool_calls] == ["CALL"]

    def test_one_action_at_a_time(self) -> None:
        calls: list[ToolCall] = [
            {"name": name, "args": {}, "id": name, "type": "tool_call"} for name in ("BID", "BID", "FOLD")
        ]
        assert len(read_action(AIMessage("", tool_calls=calls)).tool_calls) == 1

    @pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```", "```\n{}\n```", "  {}\n"])
    def test_json_is_read_where_a_model_makes_no_calls(self, fence: str) -> None:
        said = json.dumps({"tool": "BID", "args": {"amount": "120"}, "commentary": "FINISH is near"})
        [call] = read_action(AIMessage(fence.replace("{}", said))).tool_calls
        assert (call["name"], call["args"]) == ("BID", {"amount": "120"})

    @pytest.mark.parametrize("text", ["", "I FINISH here", "[1]", '{"tool": 3}', '{"args": {}}', "{" * 5000])
    def test_what_is_no_action_is_a_call_that_cannot_be_read(self, text: str) -> None:
        message = read_action(AIMessage(text))
        assert not message.tool_calls
        assert len(message.invalid_tool_calls) == 1


class TestEpisodes:
    async def test_finish_in_a_commentary_ends_nothing(self, local: Path) -> None:
        speaker = Scripted(
            "Ada", act("BID", "FINISH FINISH", amount="120"), act("BID", '{"tool": "FINISH"}', amount="230")
        )
        episode = await played({"Ada": speaker, "Ben": Scripted("Ben")}, local, lots=LOTS[:1])
        assert [event.data["amount"] for event in episode.events if event.kind == "bid"] == ["120", "230"]
        assert episode.results[0].winner == "Ada"

    async def test_finish_ends_a_part_and_keeps_the_bid(self, local: Path) -> None:
        bidders: dict[str, Bidder] = {
            "Ada": Scripted("Ada", act("BID", amount="250"), act("FINISH")),
            "Ben": Scripted("Ben", act("CALL"), act("FINISH")),
        }
        episode = await played(bidders, local, lots=LOTS[:1])
        assert [(event.kind, event.bidder) for event in episode.events[1:]] == [
            *(("bid", "Ada"), ("call", "Ben"), ("left", "Ben"), ("fold", "Ben"), ("left", "Ada"), ("call", "Ada")),
            ("sold", "Ada"),
        ]

    async def test_a_model_that_cannot_be_understood_costs_three_calls_of_a_lot(self, local: Path) -> None:
        class Talks:
            asked = 0

            async def call(self, *_: object, **__: object) -> AIMessage:
                self.asked += 1
                return AIMessage("I would like to see the STATUS please")

        talks = Talks()
        bidders: dict[str, Bidder] = {"Ada": ModelBidder("Ada", talks, []), "Ben": RuleBidder("Ben", 1)}  # type: ignore[arg-type]
        episode = await played(bidders, local, lots=LOTS[:1])
        assert talks.asked == 3
        assert "status" not in {event.kind for event in episode.events}
        [left] = [event.data for event in episode.events if event.kind == "left"]
        assert left["why"] == "its answers could not be understood"

    async def test_one_that_never_moves_ends_with_its_steps(self, local: Path) -> None:
        looks = Scripted("Ada", *[act("STATUS")] * 1000)
        bidders: dict[str, Bidder] = {"Ada": looks, "Ben": RuleBidder("Ben", 1)}
        episode = await played(bidders, local, lots=LOTS[:1], max_steps=10)
        assert looks.calls == 10
        assert [event.data["why"] for event in episode.events if event.kind == "left"] == [
            "the assistant needed more than 10 steps"
        ]

    async def test_termination_is_continue_until_it_is_over_and_its_end_ends_the_run(self, local: Path) -> None:
        last = Scripted("Ada", act("CHECK_TERMINATION"), act("CALL"))
        async with opened_tools(local, None) as tools:
            agent = AuctionAgent({"Ada": last}, tools, 20)
            episode = await play(agent, LOTS[:1], PURSE, 1, Terms())
            assert [m.text for m in last.seen if isinstance(m, ToolMessage)] == ["continue"]
            ended = Scripted("Ada", act("CHECK_TERMINATION"))
            agent.bidders = {"Ada": ended}
            run = {"id": "0" * 32, "bidder": "Ada", "lot": LOTS[0].name}
            state = await agent.graph().ainvoke({"run": run, "messages": []})
        assert [m.text for m in state["messages"] if isinstance(m, ToolMessage)] == ["end"]
        assert ended.calls == 1
        assert episode.tool_usage == {"CALL": 1, "CHECK_TERMINATION": 1}

    async def test_every_local_tool_tells_an_event_and_is_counted(self, local: Path) -> None:
        one = Scripted("Ada", act("STATUS"), act("CHECK_TERMINATION"), act("BID", amount="120"), act("FOLD"))
        two = Scripted("Ben", act("CALL"), act("BID", amount="300"), act("FOLD"))
        episode = await played({"Ada": one, "Ben": two}, local, lots=LOTS[:1])
        assert {"bid", "call", "fold", "status", "check_termination"} <= {event.kind for event in episode.events}
        assert episode.tool_usage["BID"] == 2
        state = json.loads(next(m.text for m in one.seen if isinstance(m, ToolMessage)))
        assert (state["price"], state["you"], state["purse"], state["leader"]) == ("100", "Ada", "1500", None)

    async def test_events_are_in_no_state(self, local: Path) -> None:
        async with opened_tools(local, None) as tools:
            agent = AuctionAgent(rule_bidders(2, 1), tools, 60)
            graph = agent.graph()
            assert set(graph.get_graph().nodes) - {"__start__", "__end__"} == {"agent", "tool_dispatcher"}
            channels = set(graph.channels)
        assert not {name for name in channels if "event" in name or "bus" in name}

    async def test_who_thinks_longer_changes_nothing(self, local: Path) -> None:
        """They propose at once, and are heard in order."""

        class Slow(RuleBidder):
            async def propose(self, messages: Sequence[AnyMessage], table: SaleTable) -> AIMessage:
                for _ in range(7 * (NAMES.index(self.name) % 3)):
                    await asyncio.sleep(0)
                return await super().propose(messages, table)

        quick = await played(rule_bidders(5, 3), local, seed=3)
        slow = await played({name: Slow(name, 3) for name in NAMES[:5]}, local, seed=3)
        assert slow == quick

    async def test_all_propose_before_any_is_answered(self, local: Path) -> None:
        thinking: list[str] = []
        everybody = asyncio.Event()

        class Waits(Scripted):
            async def propose(self, messages: Sequence[AnyMessage], table: SaleTable) -> AIMessage:
                thinking.append(self.name)
                if len(thinking) == 8:
                    everybody.set()
                await everybody.wait()
                return await super().propose(messages, table)

        async with asyncio.timeout(20):
            await played({name: Waits(name) for name in NAMES[:8]}, local, lots=LOTS[:1])

    @pytest.mark.parametrize("seed", range(20))
    async def test_an_episode_breaks_no_rule(self, local: Path, seed: int) -> None:
        episode = await played(rule_bidders(1 + seed % 8, seed), local, seed=seed)
        assert broken_rules(episode, PURSE, LOTS, Terms()) == []

    @pytest.mark.long
    @pytest.mark.parametrize("first", range(0, 1000, 100))
    async def test_a_thousand_episodes_end_and_break_no_rule(self, local: Path, first: int) -> None:
        for seed in range(first, first + 100):
            terms, purse = Terms(rounds=1 + seed % 12, bids=1 + seed % 5), Decimal(100 + 7 * (seed % 300))
            lots = [LOTS[seed % 5], LOTS[(seed + 2) % 5]]
            episode = await played(rule_bidders(1 + seed % 6, seed), local, seed, lots, purse, terms)
            assert broken_rules(episode, purse, lots, terms) == [], seed

    @pytest.mark.long
    async def test_eight_that_answer_at_once_need_less_than_two_seconds_of_the_processor(self, local: Path) -> None:
        await played(rule_bidders(2, 1), local)  # what is loaded at first use
        started = time.process_time()
        await played(rule_bidders(8, 1), local)
        assert time.process_time() - started < 2

    async def test_a_judge_of_the_rules_that_sees_them_broken(self, local: Path) -> None:
        """A guard for the others: an episode that is tampered with does not pass."""
        episode = await played(rule_bidders(3, 2), local, seed=2)
        episode.purses["Ada"] += 1
        assert broken_rules(episode, PURSE, LOTS, Terms()) == ["money is not conserved"]


class TestTranscript:
    async def test_as_lines_and_as_a_page_that_holds_no_markup_of_others(self, local: Path) -> None:
        lot = LOTS[0].model_copy(update={"title": "<script>alert(1)</script>"})
        bidders: dict[str, Bidder] = {"Ada": Scripted("Ada", act("BID", "<b>mine</b>", amount="250"))}
        episode = await played(bidders, local, lots=[lot])
        told = [line.strip() for event in episode.events for line in lines(event)]
        assert told[-2:] == ["1  Ada bids 250 (<b>mine</b>)", "1  Sold to Ada for 250"]
        html = page(episode)
        assert "<script" not in html
        assert "<b>" not in html
        assert "M40 200H600.0V40.0" in html

    def test_every_event_has_words(self) -> None:
        data = dict.fromkeys(
            ("amount", "answer", "question", "tool", "why", "price", "title", "opening", "increment"), "x"
        )
        for kind in AuctionEvent.__annotations__["kind"].__args__:
            assert all(lines(AuctionEvent(kind, "a", 1, "Ada", data)))
