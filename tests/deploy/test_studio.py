"""The graphs that LangGraph's studio opens: loaded as its server loads them, without database, model or mailbox."""

import importlib.util
import json
from typing import Any

import pytest
from langgraph.graph.state import CompiledStateGraph

from tests.deploy import FOLDER


def opened(name: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph by the file and the variable that langgraph.json names."""
    path, _, variable = json.loads((FOLDER / "langgraph.json").read_text())["graphs"][name].partition(":")
    spec = importlib.util.spec_from_file_location("studio", FOLDER / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graph = getattr(module, variable)
    assert isinstance(graph, CompiledStateGraph)
    return graph


def test_the_mail_agent() -> None:
    graph = opened("mail")
    nodes = set(graph.get_graph(xray=True).nodes)
    assert {"triage_router", "triage_interrupt_handler", "response_agent:llm_call", "response_agent:act"} <= nodes
    # With one of its own, the studio's server takes no graph.
    assert graph.checkpointer is None


def test_the_chat_agent() -> None:
    assert {"policy_router", "task_executor", "human_confirmation", "use_tools"} <= set(
        opened("chat").get_graph().nodes
    )


@pytest.mark.parametrize("name", ["mail", "chat"])
async def test_they_do_nothing(name: str) -> None:
    run = {"id": "0", "account_id": "00000000-0000-0000-0000-000000000000", "given": None}
    with pytest.raises(RuntimeError, match="only shows this graph"):
        await opened(name).ainvoke({"run": run, "messages": []})
