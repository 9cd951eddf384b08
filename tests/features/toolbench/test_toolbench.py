"""The bench of tool use, over HTTP: an oracle in the model's place, and a virtual server that sees what reaches it."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool

from email_assistant.features.toolbench.agent import BaseAgent, LangGraphAgent
from email_assistant.features.toolbench.apis import BenchError, read_apis
from email_assistant.features.toolbench.run import run_benchmark
from email_assistant.features.toolbench.tools import VirtualServer, load_tools, make_tools
from tests.doubles import warm
from tests.doubles.oracle import NAME, Oracle, Turn, filled
from tests.doubles.tool_files import Files, hard_files
from tests.doubles.virtual_server import Fault, VirtualServerDouble

Answers = Callable[[str, int], Turn | None]


@pytest.fixture
def server() -> Iterator[VirtualServerDouble]:
    with VirtualServerDouble() as double:
        yield double
        assert double.refused == []


@pytest.fixture
def oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Oracle]:
    with Oracle() as double:
        use(double, tmp_path, monkeypatch)
        yield double
        assert double.violations == []


def use(model: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_ASSISTANT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "a key")


def plain_files(folder: Path, tools: int = 3, apis: int = 3) -> Files:
    files = Files(folder)
    page = {"name": "page", "type": "NUMBER", "description": "", "default": "1"}
    name = {"name": "name", "type": "STRING", "description": "", "default": ""}
    for tool in range(tools):
        listed = [
            {"name": f"get {n}", "required_parameters": [name], "optional_parameters": [page]} for n in range(apis)
        ]
        files.write("Sports", f"Tool {tool}", listed)
    return files


def asked(path: Path, queries: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(queries))
    return path


def by_mark(tools: list[BaseTool], mark: int) -> BaseTool:
    return next(tool for tool in tools if tool.description.endswith(f"#{mark}") or f"#{mark} " in tool.description)


def steps(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(each["message"]) for each in answer["answer"]["answer_details"]]


class TestHardNames:
    @pytest.mark.parametrize("flat", [False, True], ids=["by category", "flat"])
    def test_an_oracle_reaches_every_api(
        self, flat: bool, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = hard_files(tmp_path / "tools", flat=flat)
        everything = range(len(files.apis))
        queries = [files.query(n, [n], own=everything) for n in everything]
        agent = LangGraphAgent(model="oracle", server_url=server.url)
        agent.bind_tools(tmp_path / "tools", server.url)

        result = run_benchmark(agent, asked(tmp_path / "q.json", queries), results_dir=tmp_path / "results")

        assert (result["hit_rate"], result["routed_rate"], result["api_call_score"]) == (1.0, 1.0, 1.0)
        assert (result["crashes"], result["errors"], result["calls"]) == (0, 0, len(files.apis))
        assert set(server.counted.values()) == {1}
        assert len(server.counted) == len(files.apis)
        assert {each["model"] for each in oracle.requests} == {"oracle"}

    def test_every_parameter_arrives_under_its_own_name(self, tmp_path: Path, server: VirtualServerDouble) -> None:
        hard_files(tmp_path)
        tool = by_mark(load_tools(tmp_path, server.url), 1)

        tool.invoke(json.loads(filled({"parameters": tool.args_schema})))

        assert server.asked[0].tool_input == {
            **dict.fromkeys(["self", "config", "callbacks", "model_config", "_private", "id", "naïve 名前"], "ü b"),
            **dict.fromkeys(["run_manager", "naïve_名前"], 1),
            "args": True,
            "kwargs": ["a"],
            "class": {"a": 1},
            "q" * 90: 2,
        }

    def test_names_are_the_same_each_time_and_each_stands_for_one_api(self, tmp_path: Path) -> None:
        files = hard_files(tmp_path)

        first, second = load_tools(tmp_path), load_tools(tmp_path)

        assert [tool.name for tool in first] == [tool.name for tool in second]
        assert len({tool.name for tool in first}) == len(first) == len(files.apis)
        assert all(NAME.fullmatch(tool.name) for tool in first)
        assert all(isinstance(tool, StructuredTool) for tool in first)

    def test_a_file_that_is_none_is_named(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        hard_files(tmp_path)

        with caplog.at_level(logging.WARNING):
            load_tools(tmp_path)

        left_out = {Path(str(record.args[0])).name for record in caplog.records if isinstance(record.args, tuple)}
        assert left_out == {"broken.json", "list.json", "nothing.json", "._finder.json", "folder.json"}

    def test_what_a_tool_stands_for_is_in_its_metadata(self, tmp_path: Path) -> None:
        Files(tmp_path).write("", "Get Data", [{"name": "all of it"}], flat=True)

        [tool] = load_tools(tmp_path)

        assert tool.name == "Get_Data_all_of_it"
        assert tool.metadata is not None
        assert (tool.metadata["category"], tool.metadata["tool"], tool.metadata["api"]) == (
            "Data",
            "Get Data",
            "all of it",
        )


class TestCalls:
    def test_a_request_is_as_the_server_takes_it(self, tmp_path: Path, server: VirtualServerDouble) -> None:
        plain_files(tmp_path)

        said = load_tools(tmp_path, server.url)[0].invoke({"name": "x"})

        assert server.asked[0].model_dump() == {
            "category": "Sports",
            "tool_name": "Tool 0",
            "api_name": "get 0",
            "tool_input": {"name": "x"},
            "strip": "",
            "toolbench_key": "EMPTY",
        }
        assert said == "get 0 of Tool 0: {'name': 'x'}"

    def test_order_and_types_of_arguments_are_those_of_the_file(
        self, tmp_path: Path, server: VirtualServerDouble
    ) -> None:
        """The server looks its answers up by them."""
        plain_files(tmp_path)
        tool = load_tools(tmp_path, server.url)[0]

        for given in ({"page": 2, "name": "3"}, {"page": "2", "name": 3}, {"name": "3", "page": 2}):
            tool.invoke(given)

        assert [each.key for each in server.asked] == ["{'name': '3', 'page': 2}"] * 3

    def test_defaults_are_kept_and_not_sent(self, tmp_path: Path, server: VirtualServerDouble) -> None:
        plain_files(tmp_path)
        tool = load_tools(tmp_path, server.url)[0]

        tool.invoke({"name": "x"})

        assert tool.args["page"] == {"type": "number", "default": 1}
        assert server.asked[0].tool_input == {"name": "x"}

    async def test_it_can_be_awaited(self, tmp_path: Path, server: VirtualServerDouble) -> None:
        plain_files(tmp_path)

        assert await load_tools(tmp_path, server.url)[8].ainvoke({"name": "x"}) == "get 2 of Tool 2: {'name': 'x'}"

    def test_a_call_that_lacks_an_argument_is_told_so(self, tmp_path: Path, server: VirtualServerDouble) -> None:
        plain_files(tmp_path)

        said = load_tools(tmp_path, server.url)[0].invoke({"page": "two", "size": 1})

        assert said == "Error: there is no argument 'size'; name is missing; page takes a value of type number"
        assert server.asked == []

    @pytest.mark.parametrize(
        ("fault", "whose", "told"),
        [
            ("500", "server", "Error: the server answered 500"),
            ("429", "server", "Error: the server answered 429"),
            ("404", "ours", "Error: the server answered 404"),
            ("redirect", "server", "Error: the server answered 307"),
            ("no json", "server", "Error: the server answered something else than JSON"),
            ("a list", "server", "Error: the server answered something else than JSON"),
            ("error", "server", "Error: Rate limit per minute exceeded"),
            (
                "dropped",
                "server",
                "Error: the server can't be reached: Server disconnected without sending a response.",
            ),
            ("unanswered", "server", "Error: the server did not answer in time"),
        ],
    )
    def test_a_failure_is_told_to_the_model_and_the_run_goes_on(
        self, fault: Fault, whose: str, told: str, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = plain_files(tmp_path / "tools")
        server.faults["Sports", "Tool 0", "get 0"] = fault
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tools=make_tools(read_apis(tmp_path / "tools"), VirtualServer(server.url, seconds=0.3)))
        queries = asked(tmp_path / "q.json", [files.query(1, [0, 1], own=range(3))])

        result = run_benchmark(agent, queries, results_dir=tmp_path / "results")

        first, second, finish = steps(json.loads((tmp_path / "results/agent/q.json").read_text())["answers"]["1"])
        assert first["response"] == told
        assert second["response"] == "get 1 of Tool 0: {'name': 'ü b'}"
        assert finish["arguments"]["final_answer"] == "done"
        assert result["failed"] == {"model": 0, "ours": 0, "server": 0} | {whose: 1}
        assert result["crashes"] == 0
        unheard = fault in ("dropped", "unanswered")
        assert result["routed_rate"] == result["hit_rate"] == (0.5 if unheard else 1.0)

    def test_what_the_cache_lacks_is_the_servers_fault(self, tmp_path: Path, oracle: Oracle) -> None:
        files = plain_files(tmp_path / "tools")
        with VirtualServerDouble(answers_all=False) as offline:
            offline.cache["Sports", "Tool 0", "get 0"] = {"{'name': 'ü b'}": {"found": ["it"]}}
            agent = LangGraphAgent(server_url=offline.url)
            agent.bind_tools(tmp_path / "tools")
            result = run_benchmark(
                agent,
                asked(tmp_path / "q.json", [files.query(1, [0, 1], own=range(3))]),
                results_dir=tmp_path / "results",
            )

        assert result["failed"] == {"model": 0, "ours": 0, "server": 1}
        first, _, _ = steps(json.loads((tmp_path / "results/agent/q.json").read_text())["answers"]["1"])
        assert first["response"] == '{"found": ["it"]}'


class TestAnswer:
    def test_it_tells_each_call_in_its_order_and_finishes(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        plain_files(tmp_path)
        agent = LangGraphAgent("any", server.url)
        agent.bind_tools(tmp_path, server.url)

        answer = agent("Do #4 and #2")

        assert answer["called_apis"] == [["Tool 1", "get 1"], ["Tool 0", "get 2"]]
        assert answer["answer"]["final_answer"] == "done"
        assert [(each["role"], each["next"]) for each in answer["answer"]["answer_details"]] == [("tool", [])] * 3
        assert steps(answer) == [
            {"name": "Tool 1_get 1", "arguments": {"name": "ü b"}, "response": "get 1 of Tool 1: {'name': 'ü b'}"},
            {"name": "Tool 0_get 2", "arguments": {"name": "ü b"}, "response": "get 2 of Tool 0: {'name': 'ü b'}"},
            {"name": "Finish", "arguments": {"return_type": "give_answer", "final_answer": "done"}, "response": ""},
        ]

    def test_tools_may_be_bound_anew(self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle) -> None:
        plain_files(tmp_path / "one")
        Files(tmp_path / "two").write("Music", "Other", [{"name": "song"}])
        agent = LangGraphAgent(server_url=server.url)

        agent.bind_tools(tmp_path / "one", server.url)
        agent.bind_tools(tmp_path / "two", server.url)

        assert agent.answer("Do #0")["called_apis"] == [["Other", "song"]]

    def test_nothing_goes_on_without_tools(self, tmp_path: Path, oracle: Oracle) -> None:
        agent = LangGraphAgent()
        with pytest.raises(BenchError, match="call bind_tools before"):
            agent.answer("Do #0")
        with pytest.raises(BenchError, match="name the folder of the tool files"):
            agent.bind_tools()
        with pytest.raises(BenchError, match="nowhere holds no tool files"):
            agent.bind_tools(tmp_path / "nowhere")
        with pytest.raises(BenchError, match="holds no tool files"):
            agent.bind_tools(tmp_path)

    def test_what_ends_the_run_is_the_answer(self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle) -> None:
        plain_files(tmp_path)
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path)
        oracle.status = 401

        answer = agent.answer("Do #0")

        assert "refuses the key; check OPENAI_API_KEY" in answer["answer"]["final_answer"]
        assert [each["name"] for each in steps(answer)] == ["Finish"]

    def test_a_model_that_never_ends_is_stopped(
        self, tmp_path: Path, server: VirtualServerDouble, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain_files(tmp_path / "tools")
        with Oracle(lambda query, step: lambda functions: [(functions[0]["name"], filled(functions[0]))]) as endless:
            use(endless, tmp_path, monkeypatch)
            agent = LangGraphAgent(server_url=server.url, max_steps=3)
            agent.bind_tools(tmp_path / "tools")
            answer = agent.answer("Do #0")

        assert answer["answer"]["final_answer"] == "the assistant needed more than 3 steps"
        assert [each["name"] for each in steps(answer)] == [*["Tool 0_get 0"] * 3, "Finish"]
        assert len(server.asked) == 3

    def test_what_the_model_does_wrong_is_its_fault(
        self, tmp_path: Path, server: VirtualServerDouble, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = plain_files(tmp_path / "tools")
        wrong = [("nothing_like_it", "{}"), ("Tool_0_get_0", "{not json"), ("Tool_0_get_0", '{"page": 1}')]
        with Oracle(lambda query, step: None if step else lambda functions: wrong) as confused:
            use(confused, tmp_path, monkeypatch)
            agent = LangGraphAgent(server_url=server.url)
            agent.bind_tools(tmp_path / "tools")
            queries = asked(tmp_path / "q.json", [files.query(1, [0], own=range(3))])
            result = run_benchmark(agent, queries, results_dir=tmp_path / "results")

        assert result["failed"] == {"model": 3, "ours": 0, "server": 0}
        assert (result["routed_rate"], result["hit_rate"], server.asked) == (0.0, 0.0, [])
        [unknown, lacking, _, _] = sorted(
            steps(json.loads((tmp_path / "results/agent/q.json").read_text())["answers"]["1"]),
            key=lambda step: step["name"] != "nothing_like_it" and step["name"] != "Tool 0_get 0",
        )
        assert unknown["response"] == "Error: there is no tool 'nothing_like_it'"
        assert lacking["response"] == "Error: name is missing"

    def test_tools_that_call_another_api_than_they_name_are_found_out(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = plain_files(tmp_path / "tools")
        tools = load_tools(tmp_path / "tools", server.url)
        for tool in tools:
            assert isinstance(tool, StructuredTool)
            tool.func = tools[-1].func  # type: ignore[attr-defined]  # as a closure over a loop's variable does
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tools=tools)
        queries = [files.query(n, [n], own=range(9)) for n in range(9)]

        result = run_benchmark(agent, asked(tmp_path / "q.json", queries), results_dir=tmp_path / "results")

        assert result["api_call_score"] == result["routed_rate"] == 1.0
        assert result["hit_rate"] == pytest.approx(1 / 9)

    def test_a_tool_that_raises_is_our_fault(self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle) -> None:
        def fails(name: str) -> str:
            """#0"""
            raise RuntimeError("no luck")

        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tools=[StructuredTool.from_function(fails)])

        answer = agent.answer("Do #0")

        assert answer["called_apis"] == []
        assert steps(answer)[0] == {"name": "fails", "arguments": {"name": "ü b"}, "response": "Error: no luck"}


class TestManyTools:
    def test_a_query_is_given_its_own_tools(self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle) -> None:
        files = plain_files(tmp_path / "tools", tools=60)
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")
        queries = asked(tmp_path / "q.json", [files.query(1, [100], own=[100, 7])])

        run_benchmark(agent, queries, results_dir=tmp_path / "results")

        assert sorted(tool["function"]["name"] for tool in oracle.requests[0]["tools"]) == [
            "Tool_2_get_1",
            "Tool_33_get_1",
        ]

    def test_own_tools_that_no_file_tells_of_are_made(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = plain_files(tmp_path / "tools")
        elsewhere = Files(tmp_path / "other", apis=list(files.apis))
        elsewhere.write("Music", "Other", [{"name": "song", "required_parameters": [{"name": "of", "type": "STRING"}]}])
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")
        queries = asked(tmp_path / "q.json", [elsewhere.query(1, [9], own=[9, 0])])

        result = run_benchmark(agent, queries, results_dir=tmp_path / "results")

        assert (result["api_call_score"], result["hit_rate"]) == (1.0, 1.0)
        assert server.asked[0].named == ("Music", "Other", "song")

    def test_of_too_many_the_ones_that_fit_are_given(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = Files(tmp_path / "tools")
        for number, topic in enumerate(TOPICS):
            files.write(
                "All", f"{topic.title()} Hub {number}", [{"name": f"{what} {topic}"} for what in ("Find", "List")]
            )
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")

        answer = agent.answer("I am looking for volcanoes near Naples, #27")

        assert len(files.apis) > 128
        assert TOPICS[13] == "volcano"
        assert answer["called_apis"] == [["Volcano Hub 13", "List volcano"]]
        assert len(oracle.requests[0]["tools"]) == 20

    def test_retrieval_finds_what_queries_were_written_for(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        """As in the real files: the words of a query are those of some of its APIs, the others are of the same tool."""
        files = Files(tmp_path / "tools")
        for number, topic in enumerate(TOPICS):
            about = ({"name": name, "description": f"Gives {told} of a {topic}"} for name, told in DOES.items())
            files.write("All", f"Hub{number}", about)
        queries = [
            files.query(
                n, [n * 5], own=range(n * 5, n * 5 + 5), words=f"Please tell me the {first} of two {topic}s I saw."
            )
            for n, (topic, first) in enumerate(zip(TOPICS, [*DOES.values()] * 20, strict=False))
        ]
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")

        result = run_benchmark(agent, asked(tmp_path / "q.json", queries), results_dir=tmp_path / "results")

        assert result["queries"] == len(TOPICS)
        assert result["recall_at_20"] >= 0.9


TOPICS = """
river mountain lake forest desert island glacier canyon beach meadow swamp cliff waterfall volcano comet planet
galaxy star moon eclipse rocket satellite telescope sparrow eagle whale dolphin tiger elephant giraffe penguin
turtle snake spider beetle butterfly salmon shark violin piano guitar trumpet drum opera ballet concert festival
novel poem painter sculptor museum castle bridge tunnel railway tram harbour airport bicycle truck motorcycle
sailboat kitchen recipe cheese bread wine coffee chocolate apple orange potato
""".split()  # noqa: SIM905
DOES = {
    "search": "full name and address",
    "history": "past and old stories",
    "weather": "temperature and rain forecast",
    "prices": "cost and currency",
    "photos": "pictures and images",
}


class TestRun:
    def run(self, agent: BaseAgent, queries: Path, results: Path, **more: Any) -> dict[str, Any]:
        return run_benchmark(agent, queries, None, "an agent/v1", results_dir=results, **more)

    def test_queries_side_by_side_share_one_event_loop(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = plain_files(tmp_path / "tools")
        queries = asked(tmp_path / "q.json", [files.query(n, [n % 9], own=range(9)) for n in range(40)])
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")

        result = self.run(agent, queries, tmp_path / "results", parallel=8)

        assert (result["errors"], result["crashes"], result["api_call_score"]) == (0, 0, 1.0)
        assert agent.usage.calls == 80

    def test_as_many_calls_are_under_way_as_queries(self, tmp_path: Path, oracle: Oracle) -> None:
        files = plain_files(tmp_path / "tools")
        queries = asked(tmp_path / "q.json", [files.query(n, [n % 9], own=range(9)) for n in range(20)])
        with VirtualServerDouble(meets=20) as server:
            agent = LangGraphAgent(server_url=server.url)
            agent.bind_tools(tmp_path / "tools")
            result = self.run(agent, queries, tmp_path / "results", parallel=20)

        assert result["failed"] == {"model": 0, "ours": 0, "server": 0}

    def test_no_more_run_at_once_than_were_allowed(self, tmp_path: Path) -> None:
        agent = Crowd(meets=3)
        queries = asked(tmp_path / "q.json", [{"query": f"q{n}", "query_id": n} for n in range(12)])

        self.run(agent, queries, tmp_path / "results", parallel=3)

        assert agent.most == 3

    def test_a_run_that_was_stopped_goes_on_where_it_was(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = plain_files(tmp_path / "tools")
        queries = asked(tmp_path / "q.json", [files.query(n, [n], own=range(9)) for n in range(9)])
        agent = Stopped(server.url, after=4)
        agent.bind_tools(tmp_path / "tools")
        with pytest.raises(KeyboardInterrupt):
            self.run(agent, queries, tmp_path / "results", parallel=1)
        kept = next((tmp_path / "results").rglob("*.jsonl"))
        kept.write_bytes(kept.read_bytes()[:-20])  # as when the machine went down in the middle of a line

        result = self.run(agent, queries, tmp_path / "results", parallel=1)

        assert result["queries"] == 9
        assert result["hit_rate"] == 1.0
        asked_for = Counter(oracle.queries)
        assert sorted(asked_for.values()) == [1] * 8 + [2]  # the one whose line was torn

    def test_what_may_pass_is_tried_again(self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle) -> None:
        files = plain_files(tmp_path / "tools")
        queries = asked(tmp_path / "q.json", [files.query(n, [n], own=range(9)) for n in range(2)])
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")
        oracle.status = 503
        down = self.run(agent, queries, tmp_path / "results")
        oracle.status = 200

        up = self.run(agent, queries, tmp_path / "results")

        assert (down["errors"], down["crashes"], down["api_call_score"]) == (2, 0, 0.0)
        assert (up["errors"], up["api_call_score"]) == (0, 1.0)

    def test_any_agent_can_be_run(self, tmp_path: Path) -> None:
        queries = [
            {"query": "a", "query_id": 1, "relevant APIs": [["T", "a"], ["T", "b"]]},
            {"query": "boom", "query_id": 2},
        ]

        result = self.run(Foreign(), asked(tmp_path / "q.json", queries), tmp_path / "results")

        assert (result["queries"], result["calls"], result["api_call_score"]) == (2, 1, 0.5)
        assert (result["crashes"], result["errors"]) == (1, 1)
        assert result["hit_rate"] is result["routed_rate"] is result["recall_at_20"] is None

    def test_a_set_of_queries_is_found_by_its_bare_name(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = plain_files(tmp_path / "tools")
        queries = tmp_path / "StableToolBench/solvable_queries/test_instruction"
        queries.mkdir(parents=True)
        asked(queries / "G1_instruction.json", [files.query(7, [3], own=range(9))])
        monkeypatch.chdir(tmp_path)
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")

        scores = run_benchmark(agent=agent, test_set="G1_instruction", max_queries=1, results_dir=tmp_path / "results")
        assert (scores["test_set"], scores["queries"]) == ("G1_instruction", 1)
        with pytest.raises(BenchError, match="G2_category is no file of queries"):
            run_benchmark(agent=agent, test_set="G2_category", max_queries=1, results_dir=tmp_path / "results")

    def test_the_scorer_follows_the_converted_answers_to_finish(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        files = plain_files(tmp_path / "tools")
        agent = LangGraphAgent(server_url=server.url)
        agent.bind_tools(tmp_path / "tools")

        self.run(agent, asked(tmp_path / "G1.json", [files.query(7, [3, 0], own=range(9))]), tmp_path / "results")

        [path] = (tmp_path / "results/model_predictions_converted").glob("*/G1.json")
        example = json.loads(path.read_text())["7"]
        all_steps, final = followed(example)
        assert [step["name"] for step in all_steps] == ["Tool 1_get 0", "Tool 0_get 0", "Finish"]
        assert "'name': 'Finish'" in final
        assert example["answer"]["total_steps"] == 5
        assert json.loads(example["answer"]["final_answer"])["final_answer"] == "done"
        assert {tool["name"] for tool in example["available_tools"]} >= {"Tool 1_get 0", "Tool 0_get 0"}

    def test_what_is_solved_only_a_judge_tells(
        self, tmp_path: Path, server: VirtualServerDouble, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = plain_files(tmp_path / "tools")
        queries = asked(tmp_path / "G1.json", [files.query(n, [n], own=range(9)) for n in range(3)])
        with Oracle(judging) as model:
            use(model, tmp_path, monkeypatch)
            agent = LangGraphAgent(server_url=server.url)
            agent.bind_tools(tmp_path / "tools")
            without = self.run(agent, queries, tmp_path / "results")
            [table] = (tmp_path / "results").rglob("G1.md")
            first = table.read_text()
            judged = self.run(agent, queries, tmp_path / "results", judge=LangGraphAgent("a judge"))

        assert (without["judge"], without["solved_rate"]) == (None, None)
        assert "| needs a judge model |" in first
        assert (judged["judge"], judged["solved_rate"]) == ("a judge", 0.5)
        assert "| a judge | 0.500 |" in table.read_text()
        assert first.count("\n") == 3

    def test_a_model_that_repeats_itself_breaks_no_file(
        self, tmp_path: Path, server: VirtualServerDouble, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = plain_files(tmp_path / "tools")
        with Oracle(lambda query, step: None if step else lambda functions: [("nothing", "{}")] * 1000) as stuck:
            use(stuck, tmp_path, monkeypatch)
            agent = LangGraphAgent(server_url=server.url)
            agent.bind_tools(tmp_path / "tools")
            result = self.run(agent, asked(tmp_path / "q.json", [files.query(1, [0])]), tmp_path / "results")

        assert (result["calls"], result["crashes"]) == (1000, 0)
        [path] = (tmp_path / "results/model_predictions_converted").rglob("q.json")
        found, final = followed(json.loads(path.read_text())["1"])
        assert len(found) == 300
        assert "'name': 'Finish'" in final

    def test_files_that_hold_no_queries_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(BenchError, match="is no file of queries: FileNotFoundError"):
            self.run(Foreign(), tmp_path / "nothing.json", tmp_path)
        with pytest.raises(BenchError, match="is no file of queries"):
            self.run(Foreign(), asked(tmp_path / "q.json", [{"no": "query"}]), tmp_path)


def followed(example: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The steps as StableToolBench's scorer finds them (`get_steps` of its tooleval)."""
    node, found, final = example["answer"]["answer_details"][0], [], ""
    while True:
        if node["message"] and node["role"] == "tool":
            found.append(node["message"])
            final = f"Final step: {node['message']}"
        if not node["next"]:
            return found, final
        node = node["next"][0]


def judging(query: str, step: int) -> Turn | None:
    """Says of the three queries that one is solved, of one that it is not, and can't tell of the last."""
    verdicts = {"#0": "solved", "#1": "unsure", "#2": "unsolved"}
    said = json.dumps({"reason": "", "verdict": next((v for mark, v in verdicts.items() if mark in query), "")})
    return (lambda functions: said) if query.startswith("<question>") else None


class Foreign(BaseAgent):
    """Somebody else's agent, which does no more than it must."""

    def bind_tools(self, *_: Any, **__: Any) -> None:
        raise AssertionError("it has its own")

    def answer(self, query: str) -> dict[str, Any]:
        if query == "boom":
            raise RuntimeError("boom")
        made = [{"name": "T_a", "arguments": {}, "response": "r"}, {"name": "Finish", "arguments": {}, "response": ""}]
        details = [{"role": "tool", "message": json.dumps(each), "next": []} for each in made]
        return {"answer": {"final_answer": "f", "answer_details": details}, "called_apis": [["T", "a"]]}


class Crowd(Foreign):
    """Lets nobody go before so many are in."""

    def __init__(self, meets: int) -> None:
        self.most = 0
        self._in = 0
        self._lock = threading.Lock()
        self._meeting = threading.Barrier(meets)

    def answer(self, query: str) -> dict[str, Any]:
        with self._lock:
            self._in += 1
            self.most = max(self.most, self._in)
        self._meeting.wait(timeout=30)
        with self._lock:
            self._in -= 1
        self._meeting.wait(timeout=30)
        return super().answer(query)


class Stopped(LangGraphAgent):
    """Is interrupted once, after some answers."""

    def __init__(self, url: str, after: int) -> None:
        super().__init__(server_url=url)
        self._left = after

    def play(self, query: Any) -> Any:
        self._left -= 1
        if self._left == -1:
            raise KeyboardInterrupt
        return super().play(query)


def test_hundreds_of_tools_load_fast_and_small(tmp_path: Path) -> None:
    """In a process of its own, with all that it imports."""
    for number in range(814):
        Files(tmp_path).write(
            f"Category {number % 40}",
            f"Tool {number}",
            [API | {"name": f"api {n}"} for n in range(3)],
            name=f"tool_{number}",
        )
    script = (
        "import json, pathlib, re, sys, time\n"
        "from email_assistant.features.toolbench.tools import load_tools\n"
        "begun = time.process_time()\n"
        "tools = load_tools(sys.argv[1])\n"
        "spent = time.process_time() - begun\n"
        "peak = re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())[1]\n"
        "print(json.dumps([len(tools), spent, int(peak) / 1024]))\n"
    )

    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)

    count, seconds, megabytes = json.loads(done.stdout)
    assert count == 3 * 814
    assert seconds < 2
    assert megabytes < 200


API: dict[str, Any] = {
    "description": "Gives a long account of what it is good for. " * 8,
    "required_parameters": [
        {"name": f"id {n}", "type": "STRING", "description": "what it is", "default": "x"} for n in range(3)
    ],
    "optional_parameters": [
        {"name": f"page {n}", "type": "NUMBER", "description": "", "default": "1"} for n in range(3)
    ],
}


class TestCommand:
    def run(self, tmp_path: Path, server: VirtualServerDouble, *more: str) -> "subprocess.CompletedProcess[str]":
        files = ["--tools", str(tmp_path / "tools"), "--queries", str(tmp_path / "G1.json"), "--results", str(tmp_path)]
        started = warm.command("-m", "email_assistant", "bench", "toolbench", *files, "--server", server.url, *more)
        return subprocess.run(started, env=dict(os.environ), cwd=tmp_path, capture_output=True, text=True, timeout=120)

    def test_it_prints_scores(self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle) -> None:
        files = plain_files(tmp_path / "tools")
        asked(tmp_path / "G1.json", [files.query(n, [n], own=range(9)) for n in range(4)])

        first = self.run(tmp_path, server, "--model", "oracle", "--max-queries", "3")
        again = self.run(tmp_path, server, "--model", "oracle", "--json")

        assert first.returncode == 0, first.stderr
        lines = {" ".join(line.split()) for line in first.stdout.splitlines()}
        assert lines >= {"queries 3", "hit rate 1.000", "recall at 20 1.000", "solved rate needs a judge model"}
        scores = json.loads(again.stdout)
        assert (scores["queries"], scores["api_call_score"], scores["agent"]) == (4, 1.0, "oracle")
        assert len(oracle.queries) == 4
        assert not (tmp_path / "home").exists()

    def test_what_is_missing_is_told_in_one_line(
        self, tmp_path: Path, server: VirtualServerDouble, oracle: Oracle
    ) -> None:
        done = self.run(tmp_path, server)

        assert done.returncode == 1
        assert "holds no tool files" in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
