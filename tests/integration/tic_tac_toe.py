"""Two models at tic-tac-toe: an agent of one's own, as docs/packs.md tells how to write one."""

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from pydantic import Field

from email_assistant.agents.agent import Agent, Judged, LoopState, Ran, ToRun
from email_assistant.agents.loop import Loop
from email_assistant.gate.policy import GateSession
from email_assistant.model import Models
from email_assistant.tools.spec import Arguments, ToolError, ToolSpec

LINES = ("012", "345", "678", "036", "147", "258", "048", "246")


class Place(Arguments):
    square: int = Field(ge=0, le=8)


SCHEMA = {"properties": {"square": {"type": "integer"}}, "required": ["square"]}
MARK = ToolSpec("mark", "Put your mark on a free square, 0 to 8.", SCHEMA, arguments=Place, review=None)


class TicTacToe(Agent):
    max_steps = 30

    def __init__(self, players: Mapping[str, Models]) -> None:
        self.players, self.winner = players, ""
        self.moves: list[int] = []  # of X, who begins, and of O in turn

    async def play(self) -> None:
        opening = HumanMessage("Play. Squares are numbered row by row.")
        await Loop(self, ask_tool=None).graph().ainvoke({"run": {}, "messages": [opening]})

    async def propose(self, state: LoopState) -> AIMessage:
        self.turn, self.mover = len(self.moves), "XO"[len(self.moves) % 2]
        prompt = f"You play {self.mover}. Marked: X at {self.moves[::2]}, O at {self.moves[1::2]}."
        asked = [SystemMessage(prompt), *state["messages"]]
        return await self.players[self.mover].call("pack", asked, tools=[MARK.schema()], tool_choice="required")

    async def judge(self, run: Mapping[str, Any], name: str, args: dict[str, Any], session: GateSession) -> Judged:
        try:
            if name != MARK.name:
                raise ToolError(f"there is no tool {name!r}")
            move = MARK.parse(args).model_dump()
            if move["square"] in self.moves or len(self.moves) > self.turn:
                raise ToolError("that square is taken, or it is the other's turn")
        except ToolError as error:
            return Judged(kind="refuse", args=args, text=f"Error: {error}")
        return Judged(kind="run", args=move, text="")

    async def run_tool(self, call: ToRun, config: RunnableConfig) -> Ran:
        self.moves.append(call.args["square"])
        if any(all(int(square) in self.moves[::-2] for square in line) for line in LINES):
            self.winner = self.mover
        return Ran(f"{self.mover} marked {self.moves[-1]}.", ends=bool(self.winner) or len(self.moves) == 9)
