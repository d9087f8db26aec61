"""A record is a frozen dataclass in all that a program can see."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import sys
import textwrap

import pytest

from syncless.tools.records import record
from tests.programs import run_unchecked


def plain():
    class Point:
        """Its text."""

        first: int
        second: str = "two"
        """The text of a field."""

        def __post_init__(self) -> None:
            if self.first < 0:
                raise ValueError("negative")

    return Point


def both():
    """A record that nobody has looked into, and the dataclass that it is to equal."""
    return record(frozen=True)(plain()), dataclasses.dataclass(frozen=True)(plain())


def outcome(function, *args, **kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "look",
    [
        lambda point: repr(point(1)),
        lambda point: repr(point(first=1, second="x")),
        lambda point: outcome(point),
        lambda point: outcome(point, 1, 2, 3),
        lambda point: outcome(point, 1, third=3),
        lambda point: outcome(point, -1),
        lambda point: (point(1) == point(1), point(1) == point(2), point(1) == 1, point(1) != point(1)),
        lambda point: len({point(1), point(1), point(2)}),
        lambda point: outcome(setattr, point(1), "first", 2),
        lambda point: outcome(setattr, point(1), "third", 2),
        lambda point: outcome(delattr, point(1), "first"),
        lambda point: str(inspect.signature(point)),
        lambda point: (point.__doc__, point.__match_args__, point.second, vars(point(1))),
        lambda point: (point.__init__.__qualname__, point.__init__.__annotations__),
        lambda point: [(field.name, field.type, field.default) for field in dataclasses.fields(point)][1:],
        lambda point: dataclasses.is_dataclass(point) and dataclasses.asdict(point(1)),
        lambda point: repr(dataclasses.replace(point(1), second="x")),
        lambda point: repr(copy.copy(point(1))),
        lambda point: repr(dataclasses.make_dataclass("More", [("x", int, 0)], bases=(point,), frozen=True)),
        lambda point: outcome(dataclasses.make_dataclass, "More", [("x", int, 0)], bases=(point,)),
    ],
)
def test_it_looks_as_a_dataclass(look):
    ours, theirs = both()
    assert look(ours) == look(theirs)


def test_it_behaves_the_same_before_and_after_somebody_reads_its_fields():
    ours, _ = both()
    before = ours(1)
    assert hash(before) == hash(ours(1)) and "__dataclass_params__" not in vars(ours)
    dataclasses.fields(ours)
    assert "__dataclass_params__" in vars(ours)
    assert before == ours(1) and hash(before) == hash(ours(1)) and repr(before) == repr(ours(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.first = 3


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace is of Python 3.13")
def test_copies_with_changes():
    ours, _ = both()
    assert repr(copy.replace(ours(1), first=2)) == repr(ours(2))


def test_limits_are_pickled_and_extended():
    program = """
    import pickle
    from syncless.wsgi import Limits
    limits = Limits(requests=5)
    assert pickle.loads(pickle.dumps(limits)) == limits
    import dataclasses
    @dataclasses.dataclass(frozen=True)
    class Mine(Limits):
        more: int = 1
    print(Mine(requests=5, more=2).more, dataclasses.replace(limits, requests=6).requests)
    """
    done = run_unchecked(textwrap.dedent(program))
    assert done.stdout == "2 6\n", done.stderr
