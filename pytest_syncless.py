"""A plugin for pytest: the fixture `syncless_server`, and the option `--tasklets`.

pytest imports this file in each project where syncless is installed, so it imports nothing of syncless. The
rest is in syncless/contrib/pytest.py, imported when it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest


def _plugin() -> Any:
    return importlib.import_module("syncless.contrib.pytest")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("syncless").addoption(
        "--tasklets",
        action="store_true",
        help="Patch the standard library (syncless.patches), and run each test in a tasklet of its own.",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("tasklets"):
        _plugin().patch_all()


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
