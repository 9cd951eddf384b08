"""What others watch the program with: Prometheus' files by its own tool, and Grafana's by what Grafana needs of it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import FOLDER, REPOSITORY, documents
from tests.tools import need

_PROMETHEUS = FOLDER / "prometheus"
_ALERTS = Path(__file__).parent / "alerts.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As it is where Prometheus runs: with the token that a person has put there."""
    for path in (*_PROMETHEUS.iterdir(), _ALERTS):
        shutil.copy(path, tmp_path)
    (tmp_path / "token").write_text("token")
    return tmp_path


def promtool(folder: Path, *arguments: str) -> None:
    need("promtool")
    done = subprocess.run(("promtool", *arguments), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class TestPrometheus:
    def test_it_takes_its_files(self, folder: Path) -> None:
        promtool(folder, "check", "config", "prometheus.yaml")
        promtool(folder, "check", "rules", "rules.yaml")

    def test_each_alert_goes_off_when_it_should_and_none_when_all_is_well(self, folder: Path) -> None:
        promtool(folder, "test", "rules", "alerts.yaml")
        assert set(alerts()) == set(re.findall(r'alertname="(\w+)"', _ALERTS.read_text()))

    def test_for_each_alert_it_is_said_what_to_do(self) -> None:
        told = (REPOSITORY / "docs" / "operations.md").read_text()
        rows = dict(re.findall(r"^\| `(EmailAssistant\w+)` \((\w+)\) \| .{40,} \|$", told, re.MULTILINE))
        assert rows == {name: rule["labels"]["severity"] for name, rule in alerts().items()}


class TestGrafana:
    def test_each_panel_is_drawn_from_the_source_that_is_chosen(self) -> None:
        board = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())
        [source] = board["templating"]["list"]
        assert (source["type"], source["query"]) == ("datasource", "prometheus")
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids) > 15
        places = set()
        for panel in board["panels"]:
            assert panel["type"] == "timeseries"
            assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{source['name']}}}"}
            assert panel["title"]
            assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
            places.add((panel["gridPos"]["x"], panel["gridPos"]["y"]))
        assert len(places) == len(ids)

    def test_prometheus_can_read_each_expression(self, folder: Path) -> None:
        board = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())
        shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        rules = [{"record": f"shown:{number}", "expr": expr} for number, expr in enumerate(shown)]
        (folder / "shown.yaml").write_text(json.dumps({"groups": [{"name": "shown", "rules": rules}]}))
        promtool(folder, "check", "rules", "shown.yaml")


def alerts() -> dict[str, Any]:
    [content] = documents((_PROMETHEUS / "rules.yaml").read_text())
    return {rule["alert"]: rule for group in content["groups"] for rule in group["rules"]}
