"""The README's tables are those of the results that are kept, and the results are whole."""

import json

import pytest

from benchmark import report
from benchmark.engine import LIBRARIES, OPERATIONS
from benchmark.experiments import EXPERIMENTS


def test_the_readme_has_the_tables_of_the_results():
    text = report.README.read_text()
    tables = text.partition(report.BEGIN)[2].partition(report.END)[0].strip()
    assert tables == report.tables(), "run: python -m benchmark report --readme"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_are_whole(name):
    result = json.loads((report.RESULTS / f"{name}.json").read_text())
    assert {"command", "date", "machine", "versions"} <= result.keys()
    assert set(result["peers"]) == set(EXPERIMENTS[name].peers)
    for peer, entry in result["peers"].items():
        if "absent" in entry:
            assert peer != "syncless"
            continue
        for measured in entry["rounds"]:
            assert measured["requests"] > 0 and measured["cpu_us"] > 0 and measured["raw"]
            if peer == "syncless":
                assert measured["errors"] == 0, "a request of ours failed under load"


def test_engine_results_are_whole():
    result = json.loads((report.RESULTS / "engine.json").read_text())
    assert set(result["libraries"]) == set(LIBRARIES)
    assert set(result["libraries"]["syncless"]) == set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        assert name in result["libraries"][operation.peer]
    for library, found in result["libraries"].items():
        assert found or library in result["absent"]
        assert all(len(values) == result["rounds"] for values in found.values())
