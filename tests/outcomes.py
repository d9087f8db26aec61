"""A plugin of pytest for ``python -m tests``: writes down how each test ended, and leaves some for later.

Each line of the file is the report of one phase of one test, as JSON. With pytest-xdist the process that
distributes the tests writes it.
"""

import json
import os
import pathlib

import pytest


def pytest_addoption(parser):
    group = parser.getgroup("python -m tests")
    group.addoption("--outcomes", metavar="FILE", help="append how each test ended to this file")
    group.addoption("--apart", metavar="FILE", help="name tests marked `realtime` here, and leave them out")


def pytest_configure(config):
    path = config.getoption("outcomes")
    if path and not hasattr(config, "workerinput"):  # the workers of xdist report to its controller
        config.pluginmanager.register(Outcomes(path))


@pytest.hookimpl(trylast=True)  # those that -k and -m leave out are not for later either
def pytest_collection_modifyitems(config, items):
    path = config.getoption("apart")
    if not path:
        return
    apart = [item for item in items if item.get_closest_marker("realtime")]
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":  # each worker finds the same ones
        pathlib.Path(path).write_text("".join(f"{json.dumps(item.nodeid)}\n" for item in apart))
    if apart:
        config.hook.pytest_deselected(items=apart)
        items[:] = [item for item in items if item not in apart]


class Outcomes:
    def __init__(self, path):
        self.path = path

    def write(self, test, outcome, text):
        with open(self.path, "a") as file:
            print(json.dumps({"test": test, "outcome": outcome, "text": text}), file=file)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            sections = "".join(f"\n{'-' * 20} {title}\n{text}" for title, text in report.sections)
            self.write(report.nodeid, "failed", report.longreprtext + sections)
        elif report.skipped:
            reason = getattr(report, "wasxfail", None) or report.longrepr[2]
            self.write(report.nodeid, "skipped", reason.removeprefix("Skipped: "))
        elif report.when == "call":
            self.write(report.nodeid, "passed", "")

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(report.nodeid, "failed", report.longreprtext)
        elif report.skipped:  # a whole module
            self.write(report.nodeid, "skipped", report.longrepr[2].removeprefix("Skipped: "))
