"""The dashboard for Grafana in deploy/ asks for metrics that there are."""

import json
import re

import pytest

from syncless.server.status.metrics import Metrics
from syncless.server.status.scoreboard import Scoreboard
from tests.deploy.recipes import text

pytest.importorskip("prometheus_client", reason="prometheus_client makes the metrics")


def test_each_metric_of_the_dashboard_exists():
    told = Metrics(Scoreboard(1))("text/plain")[0].decode()
    known = set(re.findall(r"^# HELP (\w+) ", told, re.MULTILINE))
    asked = set(re.findall(r"\bsyncless_\w+", text("grafana/dashboard.json")))
    missing = {name for name in asked if name not in known and name.removesuffix("_bucket") not in known}
    assert len(asked) > 15 and not missing


def test_panels_do_not_lie_over_one_another():
    panels = json.loads(text("grafana/dashboard.json"))["panels"]
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}
    assert len(places) == len(panels) == len({one["id"] for one in panels})
    assert all(one["targets"] and one["gridPos"]["x"] + one["gridPos"]["w"] <= 24 for one in panels)
