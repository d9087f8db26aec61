"""A plugin for pytest: the fixtures `syncless_server`, `syncless_network` and `syncless_time`, the options
`--tasklets`, `--schedules` and `--seed`, and the mark `schedules`.

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


def _count(item: pytest.Item) -> Any:
    """Return how many schedules the test has at most, or a false value."""
    mark = item.get_closest_marker("schedules")
    return mark.args[0] if mark is not None and mark.args else item.config.getoption("schedules")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    count = _count(item)
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


@pytest.fixture
def syncless_network() -> Iterator[Any]:
    """A network in memory, to which all sockets of this process belong until the test ends: see
    `syncless.testing.network`."""
    _plugin().patch_all()
    with _plugin().network() as net:
        yield net


@pytest.fixture
def syncless_time(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Virtual time until the test ends, see `syncless.testing.virtual_time`; under schedules it is so
    anyway."""
    _plugin().patch_all()
    with contextlib.nullcontext() if _count(request.node) else _plugin().virtual_time():
        yield _plugin().advance
