"""Peer: how to start a server that is compared, and why it is absent where it is."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass, field


class Absent(Exception):
    """The server cannot run here; the text says why."""


@dataclass
class Peer:
    """How to start a server: `command(port, application)`; Absent if it cannot be had."""

    name: str
    command: Callable[[int, str], list[str]]
    version: Callable[[], str]
    applications: tuple[str, ...] = ("hello", "sleep", "flask", "django")
    environment: dict[str, str] = field(default_factory=dict)
    cores: int = 1
    keeps: bool = True
    """whether connections are kept"""


def package_version(package: str) -> Callable[[], str]:
    def version() -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise Absent(f"the Python package {package} is not installed") from None

    return version
