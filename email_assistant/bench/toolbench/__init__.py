"""Hundreds of APIs under a model's hands: StableToolBench's tools and queries, and how well an agent calls them."""

from email_assistant.bench.toolbench.agent import BaseAgent, LangGraphAgent
from email_assistant.bench.toolbench.run import run_benchmark
from email_assistant.bench.toolbench.tools import load_tools

__all__ = ["BaseAgent", "LangGraphAgent", "load_tools", "run_benchmark"]
