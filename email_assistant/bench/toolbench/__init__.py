"""Hundreds of APIs under a model's hands: StableToolBench's tools and queries, and how well an agent calls them.

apis.py       what tool files tell, as names and schemas that models take
tools.py      a tool for each API, which asks the virtual server
retrieval.py  which of many tools fit a query
toolset.py    which tools go with a query
queries.py    the test sets
agent.py      what an agent is to the benchmark, and our own
answers.py    what came of a query, in the benchmark's forms
run.py        a run of the benchmark
report.py     its scores
"""

from email_assistant.bench.toolbench.agent import BaseAgent, LangGraphAgent
from email_assistant.bench.toolbench.run import run_benchmark
from email_assistant.bench.toolbench.tools import load_tools

__all__ = ["BaseAgent", "LangGraphAgent", "load_tools", "run_benchmark"]
