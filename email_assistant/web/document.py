"""The OpenAPI document, with examples."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from fastapi import FastAPI

from email_assistant.plugins import sites

_EXAMPLES = Path(__file__).with_name("examples.yaml")  # of the spine; features have their own


@cache
def examples() -> dict[str, Any]:
    """What requests and answers look like, by the name of their model."""
    # Ours, so it may repeat parts of itself by aliases.
    files = [_EXAMPLES, *(each.examples for each in sites() if each.examples)]
    return {name: example for file in files for name, example in yaml.safe_load(file.read_text()).items()}


class DocumentedAPI(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Examples are added here, since FastAPI drops every null from those that stand in a model."""
        document = super().openapi()
        for name, example in examples().items():
            document["components"]["schemas"][name]["examples"] = [example]
        return document
