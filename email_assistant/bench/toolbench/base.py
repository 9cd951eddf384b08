"""What an agent is to the benchmark."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool

from email_assistant.bench.toolbench.answers import FINISH, Called, Played
from email_assistant.bench.toolbench.queries import Query
from email_assistant.bench.toolbench.tools import VIRTUAL_SERVER


class BaseAgent(ABC):
    """An agent that the benchmark can run, whatever it is made with."""

    @abstractmethod
    def bind_tools(
        self,
        tools_dir: str | Path | None = None,
        server_url: str = VIRTUAL_SERVER,
        *,
        tools: Sequence[BaseTool] | None = None,
    ) -> None:
        """Give it the tools of a folder of tool files, whose calls go to the server; or these, which are made already.
        They take the place of those that it had."""

    @abstractmethod
    def answer(self, query: str) -> dict[str, Any]:
        """What it makes of a query: `{"answer": {"final_answer", "answer_details"}, "called_apis": [[tool, api], …]}`.

        `answer_details` lists the calls in their order, each as `{"role": "tool", "message": JSON of name, arguments
        and response, "next": []}`; the last one is `Finish`. It may be called by several threads at once."""

    def __call__(self, query: str) -> dict[str, Any]:
        return self.answer(query)

    def play(self, query: Query) -> Played:
        """As `answer`, to an agent that can make use of what else a query tells, and tells more of what it did."""
        told = self.answer(query.text)
        details = [json.loads(each["message"]) for each in told["answer"]["answer_details"]]
        calls = [
            Called(each["name"], each["arguments"], each["response"]) for each in details if each["name"] != FINISH
        ]
        unnamed = [(tool, api) for tool, api in told.get("called_apis") or ()]
        return Played(told["answer"]["final_answer"], calls, is_watched=False, unnamed=unnamed)

    def recall(self, query: Query) -> float | None:
        """Share of the query's own APIs that its retrieval finds; None: it has none."""
        return None
