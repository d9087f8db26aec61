"""Limits in use: both servers have each under its name in Limits."""

import math
import pathlib
import re
from dataclasses import fields

import pytest

import syncless.http
from syncless.http.exchange import Application
from syncless.http.limits import Limits, limit_values
from syncless.http.listener import Listener

ROOMS = pathlib.Path(syncless.http.__file__).parent.parent
HEADER = (ROOMS / "http" / "wire" / "wire.h").read_text()
STRUCT = re.search(r"^struct limits \{\n(.*?)^\};", HEADER, re.MULTILINE | re.DOTALL)[1]
NAMES = [
    name
    for names in re.findall(r"^    (?:int64_t|double) ([^;]*);", STRUCT, re.MULTILINE)
    for name in re.split(r",\s*", names)
]
NUMBERS = {field.name: number for number, field in enumerate(fields(Limits), start=1)}


def test_struct_has_limits_by_their_names():
    values = limit_values(Limits(**NUMBERS))
    assert len(NAMES) > 20
    for name in NAMES:
        if not name.endswith("_check_ns"):
            seconds = name.removesuffix("_ns") + "_seconds"
            assert values[name] == (NUMBERS[seconds] * 10**9 if seconds in NUMBERS else NUMBERS[name])
    assert values["head"] == {
        "line": NUMBERS["request_line"],
        "headers": NUMBERS["header_count"],
        "total": NUMBERS["head_bytes"],
    }


def test_slow_clients_are_checked_within_their_grace():
    def checks(**limits):
        values = limit_values(Limits(**limits))
        return [values[f"{kind}_check_ns"] / 1e9 for kind in ("body", "write", "linger")]

    assert checks() == [5, 5, 5]
    assert checks(body_grace_seconds=2, write_grace_seconds=0, linger_idle_seconds=3) == [2, 0.1, 3]
    assert checks(body_seconds=0.05, write_seconds=1, linger_seconds=2) == [0.05, 1, 2]


@pytest.mark.skipif(not (ROOMS / "http" / "peer.pyx").exists(), reason="the sources are not here")
def test_each_limit_of_the_struct_is_used():
    sources = "".join(
        path.read_text() for path in ROOMS.rglob("*") if path.suffix in (".pyx", ".pxi", ".c", ".h", ".pxd")
    )
    unused = [name for name in NAMES if not re.search(rf"(limits|by)(\.|->){name}\b", sources)]
    assert unused == []


def test_any_number_fits():
    most = {"header_count": 128, "linger_bytes": 4_000_000_000, "head_bytes": 60000, "recorded_waits": 10_000}
    for name in NUMBERS:
        most.setdefault(name, math.inf if name.endswith("_seconds") else 1 << 62)
    Listener(Application(), Limits(**most), None, None)
