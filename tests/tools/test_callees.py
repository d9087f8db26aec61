"""The C function that a frame calls is named by its import path. The functions here call back, to be seen."""

import bisect
import functools
import re
import sys
from functools import reduce

import pytest

from syncless.tools.callees import callee_of

PATTERN = re.compile("a")
CALLS = {"reduce": reduce}


def look(*args):
    """Return what the caller's frame calls."""
    return callee_of(sys._getframe(1))


@pytest.mark.parametrize(
    ("called", "path"),
    [
        (lambda: functools.reduce(look, "ab"), "_functools.reduce"),
        (lambda: reduce(look, "ab"), "_functools.reduce"),
        (lambda: PATTERN.sub(look, "a"), "re.Pattern.sub"),
        (lambda: re.Pattern.sub(PATTERN, look, "a"), "re.Pattern.sub"),
        (lambda: max("a", key=look) and look(), ""),
        (lambda: CALLS["reduce"](look, "ab"), ""),
        (lambda: reduce.__call__(look, "ab"), ""),
    ],
)
def test_function_is_named_as_it_calls_itself(called, path):
    assert called() == path


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the place of a call is its line before Python 3.11")
def test_call_of_several_lines_beside_others_is_read():
    seen = []
    found = len("a") + bisect.bisect_right(
        [1],
        1,
        key=lambda item: seen.append(callee_of(sys._getframe(1))) or item,
    )
    assert found == 2 and seen == ["_bisect.bisect_right"]


def test_local_name_is_not_looked_up():
    reduce = functools.reduce
    assert reduce(look, "ab") == ""


def test_function_of_python_is_not_named():
    assert look() == ""


def test_code_without_source_has_no_name():
    names = {"look": look, "functools": functools}
    exec(compile("found = functools.reduce(look, 'ab')", "<nowhere>", "exec"), names)
    assert names["found"] == ""
