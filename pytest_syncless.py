"""A plugin for pytest: the fixture `syncless_server`, the options `--tasklets`, `--schedules` and `--seed`,
and the mark `schedules`.

pytest imports this file in each project where syncless is installed, so it imports nothing of syncless. The
rest is in syncless/contrib/pytest.py, imported when it is used.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import pytest


def _plugin() -> Any:
    return importlib.import_module("syncless.contrib.pytest")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("syncless")
    group.addoption(
        "--tasklets",
        action="store_true",
        help="Patch the standard library (syncless.patches), and run each test in a tasklet of its own.",
    )
    group.addoption(
        "--schedules",
        type=int,
        metavar="N",
        help="Run each test under up to N schedules of its threads and tasklets, on a virtual clock.",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Iterator[None]:
    """Add --seed, unless the project has an option of this name."""
    yield
    with contextlib.suppress(ValueError, argparse.ArgumentError):
        parser.getgroup("syncless").addoption(
            "--seed",
            dest="schedule_seed",
            metavar="SEED",
            help="Run only the schedule of this seed, which a failing test has printed.",
        )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "schedules(n): run the test under up to n schedules of its threads and tasklets"
    )
    if config.getoption("tasklets") or config.getoption("schedules"):
        _plugin().patch_all()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    mark = item.get_closest_marker("schedules")
    count = mark.args[0] if mark is not None and mark.args else item.config.getoption("schedules")
    if not count:
        return None
    _plugin().run_schedules(item, nextitem, count, item.config.getoption("schedule_seed", None))
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if not item.config.getoption("tasklets"):
        yield
        return
    with _plugin().in_a_tasklet(item):
        yield


@pytest.fixture
def syncless_server() -> Iterator[Any]:
    """syncless_server(application, **options) serves it on a free port of this machine until the test ends.

    It returns an object with `url` and `port`. The options are those of `syncless.wsgi.Server`. The test
    fails if the application has raised an exception; set the object's `expects_errors` where it should.
    """
    with _plugin().Servers() as servers:
        yield servers.serve
