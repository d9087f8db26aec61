"""TaskGroup: a block ends when its children have ended, and an error ends them all."""

import sys

import pytest

from syncless import (
    Event,
    TaskGroup,
    deadline,
    sleep,
    spawn,
)

pytestmark = pytest.mark.usefixtures("virtual_clock")


def test_task_group_waits_for_its_children():
    with TaskGroup() as group:
        children = [group.spawn(lambda number=number: (sleep(0.001), number)[1]) for number in range(3)]
        group.spawn(lambda: group.spawn(sleep, 0.002))
    assert [child.result() for child in children] == [0, 1, 2]
    with pytest.raises(RuntimeError):
        group.spawn(sleep)
    with pytest.raises(RuntimeError), group:
        pass


def grouped(error):
    """The types of the errors in the group; on Python 3.10 its own type."""
    return [type(each) for each in error.exceptions] if sys.version_info >= (3, 11) else [type(error)]


def test_an_error_of_a_child_ends_the_others_and_the_block():
    ended = []

    def wait_for_ever():
        try:
            sleep(100)
        finally:
            ended.append("child")

    def fail():
        sleep(0.001)
        raise KeyError("mine")

    with pytest.raises(Exception) as caught, TaskGroup() as group:
        group.spawn(wait_for_ever)
        group.spawn(fail)
        try:
            sleep(100)
        finally:
            ended.append("block")
    assert grouped(caught.value) == [KeyError] and sorted(ended) == ["block", "child"]


def test_exit_of_the_block_is_not_hidden_by_errors_of_children():
    with pytest.raises(SystemExit, match="mine"), TaskGroup() as group:
        group.spawn(int, "no number")
        try:
            sleep(100)
        finally:
            sys.exit("mine")


def test_child_that_cleans_up_is_not_ended_again():
    """By the failure of a child, and then by the end of the block that this brings about."""
    ended = []

    def clean_up():
        try:
            sleep(100)
        finally:
            sleep(1)
            ended.append("cleaned up")

    def fail():
        sleep(0.001)
        raise KeyError("mine")

    with pytest.raises(Exception) as caught, TaskGroup() as group:
        group.spawn(clean_up)
        group.spawn(fail)
        sleep(100)
    assert grouped(caught.value) == [KeyError] and ended == ["cleaned up"]


def test_an_error_of_the_block_ends_the_children():
    ended = []

    def wait_for_ever():
        try:
            sleep(100)
        finally:
            ended.append("child")

    with pytest.raises(ValueError, match="mine"), TaskGroup() as group:
        group.spawn(wait_for_ever)
        sleep(0)
        raise ValueError("mine")
    assert ended == ["child"]
    with pytest.raises(TimeoutError), deadline(0.01), TaskGroup() as group:
        group.spawn(wait_for_ever)
    assert ended == ["child", "child"]


def test_groups_nest():
    """The outer group's end ends the inner one's children, too, while it waits for them."""

    def fail():
        sleep(0.001)
        raise KeyError("outer")

    with pytest.raises(Exception) as caught, TaskGroup() as outer:
        outer.spawn(fail)
        with TaskGroup() as inner:
            child = inner.spawn(sleep, 100)
    assert grouped(caught.value) == [KeyError] and child.done()


def test_a_group_that_is_interrupted_again_and_again_still_waits_for_its_children():
    ended, cleaned = [], Event()

    def child():
        try:
            sleep(100)
        finally:
            cleaned.wait(10)
            ended.append("child")

    def own():
        try:
            with TaskGroup() as group:
                group.spawn(child)
                group.spawn(child)
        finally:
            ended.append("block")

    owner = spawn(own)
    sleep(0)
    for _ in range(3):
        owner.kill(block=False)
        sleep(0.001)
        assert ended == []
    cleaned.set()
    assert owner.join(5) and ended == ["child", "child", "block"]
