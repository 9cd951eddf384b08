"""The lots of an auction, as a file tells them."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from email_assistant.agents.auction.rules import Lot
from email_assistant.gate.source import Source


class _LotsFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lots: Annotated[list[Lot], Field(min_length=1, max_length=100)]


def read_lots(path: Path | None) -> Sequence[Lot]:
    """None: those that ship. Raises BadFile."""
    shipped = files("email_assistant.agents.auction").joinpath("lots.yaml")
    source = Source.read(path) if path else Source.yaml("lots.yaml", shipped.read_text())
    lots = source.parsed(_LotsFile, source.mapping()).lots
    names = [lot.name for lot in lots]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise source.bad(("lots", number, "name"), f"there is a lot {name} above")
    return lots
