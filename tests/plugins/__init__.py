"""Distributions of others, installed for a test."""

from pathlib import Path

SOURCE = Path(__file__).parent / "acme_plugins.py"
ENTRY_POINTS = """
[email_assistant.tools]
notes = acme_plugins:notes
[email_assistant.mail_providers]
post = acme_plugins:post
[email_assistant.agents]
rhymer = acme_plugins:Rhymer
"""


def install(folder: Path, entry_points: str = ENTRY_POINTS, *, name: str = "acme-plugins") -> Path:
    """Put what an installer puts into a folder of packages: the module, and what the distribution says of itself."""
    told = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text(entry_points)
    (folder / SOURCE.name).write_text(SOURCE.read_text())
    return folder
