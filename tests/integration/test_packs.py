"""The example of docs/packs.md: short, with nothing of mail, and right whatever the models at its board call."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from pydantic import SecretStr

from email_assistant.agents.agent import Agent
from email_assistant.agents.loop import StepBudgetSpent
from email_assistant.app import open_models
from email_assistant.model import Models
from email_assistant.settings import Settings
from tests.documents import ROOT, documents
from tests.doubles.oracle import Function, Oracle
from tests.integration.tic_tac_toe import TicTacToe

EXAMPLE = Path(__file__).parent / "tic_tac_toe.py"
ROWS = [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {0, 3, 6}, {1, 4, 7}, {2, 5, 8}, {0, 4, 8}, {2, 4, 6}]
Answer = list[tuple[str, str]] | str
"""Calls of one message, each with its arguments as they are sent; or a text."""


def mark(square: object) -> tuple[str, str]:
    return "mark", json.dumps({"square": square})


class Scripted:
    """Answers what a list says, the last of it for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._left = list(answers)

    def __call__(self, functions: Sequence[Function]) -> Answer:
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


class Careless:
    """Marks squares by chance, several at once, and calls what there is not."""

    def __init__(self, seed: str) -> None:
        self._chance = Random(seed)

    def __call__(self, functions: Sequence[Function]) -> Answer:
        wrong = [("move", "{}"), ("mark", "{not json"), ("mark", "{}"), mark(9), mark(-1), mark("centre"), mark(None)]
        return [
            self._chance.choice([*wrong, *(mark(square) for square in range(9))])
            for _ in range(self._chance.randint(1, 3))
        ]


@asynccontextmanager
async def seated(player: Scripted | Careless, home: Path) -> AsyncIterator[Models]:
    with Oracle(lambda query, step: player) as model:
        settings = Settings(home=home, openai_base_url=model.url, openai_api_key=SecretStr("none"), model="a player")
        async with open_models(settings) as (models, _):
            yield models
        assert model.violations == []


@asynccontextmanager
async def table(x: Scripted | Careless, o: Scripted | Careless, home: Path) -> AsyncIterator[TicTacToe]:
    async with seated(x, home) as first, seated(o, home) as second:
        yield TicTacToe({"X": first, "O": second})


def has_row(squares: Sequence[int]) -> bool:
    return any(row <= set(squares) for row in ROWS)


def check_rules(game: TicTacToe) -> None:
    moves = game.moves
    assert set(moves) <= set(range(9))
    assert len(set(moves)) == len(moves)
    assert not has_row(moves[:-1][::2])  # nobody went on after the end
    assert not has_row(moves[:-1][1::2])
    assert game.winner == ("X" if has_row(moves[::2]) else "O" if has_row(moves[1::2]) else "")


class TestGame:
    async def test_a_row_wins(self, tmp_path: Path) -> None:
        async with table(Scripted([mark(0)], [mark(1)], [mark(2)]), Scripted([mark(3)], [mark(4)]), tmp_path) as game:
            await game.play()
        assert (game.moves, game.winner) == ([0, 3, 1, 4, 2], "X")

    async def test_a_full_board_is_a_draw(self, tmp_path: Path) -> None:
        x = Scripted(*([mark(square)] for square in (0, 1, 5, 6, 8)))
        async with table(x, Scripted(*([mark(square)] for square in (2, 3, 4, 7))), tmp_path) as game:
            await game.play()
        assert (game.moves, game.winner) == ([0, 2, 1, 3, 5, 4, 6, 7, 8], "")

    async def test_a_wrong_call_moves_nobody_and_may_be_mended(self, tmp_path: Path) -> None:
        cheat = Scripted([mark(0), mark(1), mark(2)], [("win", "{}")], [mark(9)], [mark(0)], [mark(3)], [mark(4)])
        async with table(cheat, Scripted([mark(0)], [mark(8)], "I give up."), tmp_path) as game:
            await game.play()
        assert (game.moves, game.winner) == ([0, 8, 3], "")

    async def test_a_model_that_never_plays_is_stopped(self, tmp_path: Path) -> None:
        async with table(Scripted([mark(4)]), Scripted([mark(4)]), tmp_path) as game:
            with pytest.raises(StepBudgetSpent):
                await game.play()
        assert game.moves == [4]

    async def test_careless_models_break_no_rule(self, tmp_path: Path) -> None:
        ended = 0
        for seed in range(20):
            async with table(Careless(f"X{seed}"), Careless(f"O{seed}"), tmp_path) as game:
                with suppress(StepBudgetSpent):
                    await game.play()
            check_rules(game)
            ended += bool(game.winner) or len(game.moves) == 9
        assert ended > 10


class TestExample:
    def test_it_is_short(self) -> None:
        assert len(EXAMPLE.read_text().splitlines()) < 60

    def test_it_has_nothing_of_mail(self) -> None:
        script = "import json, sys, tests.integration.tic_tac_toe; print(json.dumps(sorted(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
        loaded = set(json.loads(done.stdout))
        assert "email_assistant.agents.loop" in loaded
        assert not loaded & {"psycopg", "googleapiclient", "google_auth_oauthlib", "httplib2"}
        rooms_of_mail = ("accounts", "inbox", "memory", "work", "sync", "notify", "trail", "agents.mail", "agents.chat")
        assert not {name for name in loaded if name.startswith(tuple(f"email_assistant.{r}" for r in rooms_of_mail))}

    def test_its_page_tells_all_that_it_uses(self) -> None:
        [page] = [document for document in documents() if document.name == "docs/packs.md"]
        assert EXAMPLE.name in page.text
        told = set(re.findall(r"[\w.]*\w", " ".join(page.spans)))
        tree = list(ast.walk(ast.parse(EXAMPLE.read_text())))
        imported = [node for node in tree if isinstance(node, ast.ImportFrom) and node.module]
        ours = [node for node in imported if str(node.module).startswith("email_assistant.")]
        used = {str(node.module) for node in ours} | {alias.name for node in ours for alias in node.names}
        calls = [node for node in tree if isinstance(node, ast.Call)]
        used |= {str(keyword.arg) for call in calls for keyword in call.keywords if keyword.arg}
        used |= {node.name for node in tree if isinstance(node, ast.AsyncFunctionDef)} & set(dir(Agent))
        assert len(used) > 20
        assert used - told - {"ge", "le"} == set()  # pydantic's
