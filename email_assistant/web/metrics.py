"""`/metrics`: what Prometheus is told."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Response
from fastapi.responses import PlainTextResponse

from email_assistant.web.routers import ToldGauges, for_programs

if TYPE_CHECKING:
    from prometheus_client import Metric

router = for_programs("metrics")


@dataclass(frozen=True, slots=True)
class _Told:
    """A collector, as the library calls it, of what was asked for already."""

    families: "Iterable[Metric]"

    def collect(self) -> "Iterable[Metric]":
        return self.families


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(gauges: ToldGauges) -> Response:
    """Figures in Prometheus' text format: where everything stands, by the database, and what this process did.

    Numbers, under names of this program's; nothing of any mail, and nobody's address."""
    from prometheus_client import REGISTRY, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

    from email_assistant.meters import meters

    meters()  # so that what was not noted yet is named, too
    told = _Told([*await gauges.families(), *REGISTRY.collect()])
    return Response(generate_latest(told), media_type=CONTENT_TYPE_PLAIN_0_0_4)
