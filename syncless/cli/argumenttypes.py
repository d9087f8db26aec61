"""The values of options that are more than a word or a number."""

from __future__ import annotations

import argparse
import dataclasses
import difflib

from syncless.http.addresses import parse_bind
from syncless.wsgi import Limits


def limit(text: str) -> tuple[str, float]:
    """A --limit argument, NAME=VALUE."""
    name, equals, value = text.partition("=")
    kinds = {field.name: field.default for field in dataclasses.fields(Limits)}
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE, for example idle_seconds=75")
    if name not in kinds:
        near = difflib.get_close_matches(name, kinds, 1)
        advice = f"did you mean {near[0]}?" if near else "--help-all lists all limits"
        raise argparse.ArgumentTypeError(f"unknown limit {name!r}; {advice}")
    try:
        number = float(value) if isinstance(kinds[name], float) else int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is not a number") from None
    return name, number


def octal(text: str) -> int:
    """A --unix-mode or --umask argument."""
    try:
        return int(text, 8)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write an octal number such as 660 or 027") from None


def hook(text: str) -> tuple[str, str]:
    """A --hook argument, NAME=MODULE:FUNCTION."""
    name, equals, function = text.partition("=")
    if not equals or ":" not in function:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=MODULE:FUNCTION")
    return name, function


def certificate(text: str) -> tuple[str, str | tuple[str, str]]:
    """A --certificate argument, NAME=CERT or NAME=CERT,KEY."""
    name, equals, files = text.partition("=")
    certfile, _, keyfile = files.partition(",")
    if not equals or not certfile:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=CERT or NAME=CERT,KEY")
    return name, (certfile, keyfile) if keyfile else certfile


def static(text: str) -> tuple[str, str]:
    """A --static argument, PREFIX=DIR."""
    prefix, _, directory = text.partition("=")
    if not prefix.startswith("/") or not directory:
        raise argparse.ArgumentTypeError(f"{text!r}: write /PREFIX=DIR")
    return prefix, directory


def mount(text: str) -> tuple[str, str]:
    """A --mount argument, PREFIX=APPLICATION."""
    prefix, _, application = text.partition("=")
    if not prefix.startswith("/") or not application:
        raise argparse.ArgumentTypeError(f"{text!r}: write /PREFIX=MODULE:ATTRIBUTE")
    return prefix, application


def native(text: str) -> tuple[str, str]:
    """A --native argument, ROUTE=HANDLER."""
    route, _, handler = text.rpartition("=")
    if "/" not in route or ":" not in handler:
        raise argparse.ArgumentTypeError(f"{text!r}: write /PATH=MODULE:HANDLER or /PATH=LIBRARY.so:FUNCTION")
    return route, handler


def is_address(text: str) -> bool:
    try:
        parse_bind(text)
    except ValueError:
        return False
    return True
