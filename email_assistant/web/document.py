"""The OpenAPI document, with examples."""

from typing import Any

from fastapi import FastAPI

from email_assistant.web.examples import EXAMPLES


class DocumentedAPI(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Examples are added here, since FastAPI drops every null from those that stand in a model."""
        document = super().openapi()
        for name, example in EXAMPLES.items():
            document["components"]["schemas"][name]["examples"] = [example]
        return document
