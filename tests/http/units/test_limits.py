"""Limits in use: each is read somewhere, in C under its name in Limits."""

import math
import pathlib
import re
from dataclasses import fields

import pytest

import syncless.http
from syncless.cli.help import explained
from syncless.http.exchange import Application
from syncless.http.limits import MOST, Limits, field_of, limit_values
from syncless.http.listener import Listener

ROOMS = pathlib.Path(syncless.http.__file__).parent.parent
NUMBERS = {field.name: number for number, field in enumerate(fields(Limits), start=1)}


def test_c_has_limits_by_their_names_and_times_in_ns():
    values = limit_values(Limits(**NUMBERS))
    for name, number in NUMBERS.items():
        time = name.removesuffix("_seconds")
        assert (values[name] if time == name else values[f"{time}_ns"] / 10**9) == number
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
def test_each_limit_is_used():
    sources = "".join(
        path.read_text()
        for path in ROOMS.rglob("*")
        if path.suffix in (".py", ".pyx", ".pxi", ".c", ".h", ".pxd")
    )
    read = set(re.findall(r"(?:[Ll]imits_?|by)(?:\.|->)(\w+)", sources))
    assert [name for name in NUMBERS if not {name, field_of(name)[1]} & read] == []


def test_largest_values_are_told():
    texts = explained()
    for name, most in MOST.items():
        assert f"At most {most}." in texts[name].replace(",", "")
        with pytest.raises(ValueError, match=f"{name} can be {most} at most, not {most + 1}"):
            Limits(**{name: most + 1})


def test_any_number_fits():
    most = {**MOST}
    for name in NUMBERS:
        most.setdefault(name, math.inf if name.endswith("_seconds") else 1 << 62)
    Listener(Application(), Limits(**most), None, None)
