"""In a build with assertions a seed decides which tasklet runs next."""

import importlib.util
import os
import textwrap

import pytest

from syncless._core.loop import checked
from tests.programs import run_python

needs_assertions = pytest.mark.skipif(not checked, reason="only builds with assertions explore")


def run(program, seed=None):
    """Each in a process of its own: it may not import Stackless's names, which would fix the order."""
    begin = "import syncless\nfrom syncless import spawn\nfrom syncless._core.explore import *\n"
    seeds = {} if seed is None else {"SYNCLESS_EXPLORE": str(seed)}
    return run_python(begin + textwrap.dedent(program), env={**os.environ, **seeds})


ORDER = """
def order(turns=4):
    found = []

    def run(name):
        for _ in range(turns):
            found.append(name)
            syncless.sleep()

    for each in [spawn(run, name) for name in "abcdef"]:
        each.result()
    return "".join(found)
"""


def test_only_a_build_with_assertions_has_the_explorer():
    assert (importlib.util.find_spec("syncless._core.explore") is not None) == checked


@needs_assertions
def test_a_seed_fixes_the_schedule():
    program = """
    for seed in range(1, 9):
        explore(seed)
        print(order(), *explored())
        explore(0)
    """
    first = run(ORDER + textwrap.dedent(program))
    assert run(ORDER + textwrap.dedent(program)) == first
    assert len(set(first.splitlines())) == 8
    assert all(int(line.split()[1]) > 24 for line in first.splitlines()), "each turn is a decision"


@needs_assertions
def test_schedules_differ_as_far_as_they_may():
    program = """
    orders = []
    for seed in range(1, 60):
        explore(seed)
        orders.append(order())
    assert {each[0] for each in orders} == set("abcdef"), "any ready tasklet may be the first"
    assert any(letter * 4 in each for each in orders for letter in "abcdef"), "one may get far ahead"
    assert all(sorted(each) == sorted("abcdef" * 4) for each in orders)
    explore(0)
    assert order() == "abcdef" * 4, "nothing is explored any more"
    """
    run(ORDER + textwrap.dedent(program))


@needs_assertions
def test_the_seed_comes_from_the_environment():
    program = "syncless.sleep(); print(explored()[0])"
    assert int(run(program, seed=7)) > 0
    assert int(run(program)) == 0


@needs_assertions
def test_a_call_that_need_not_wait_lets_others_run_at_times():
    program = """
    from syncless import patches
    patches.patch_all()
    import threading

    def turns_before_another_runs():
        ran, lock = [], threading.Lock()
        other = spawn(ran.append, 1)
        for number in range(20):
            if ran:
                break
            with lock:
                pass
        other.result()
        return number

    assert turns_before_another_runs() == 19, "the lock was free each time"
    found = []
    for seed in range(1, 60):
        explore(seed)
        found.append(turns_before_another_runs())
        explore(0)
    assert min(found) <= 1 and max(found) == 19, found
    """
    run(program)


@needs_assertions
def test_a_watcher_comes_between_a_wake_up_and_the_turn_of_the_woken():
    program = """
    killed = 0
    for seed in range(1, 60):
        explore(seed)
        seen, ran, event = [], [], syncless.Event()

        def watch():
            while True:
                woken = next_woken()
                if woken is waiter:
                    seen.append(woken)
                    woken.kill()

        def wait():
            event.wait()
            ran.append(1)

        watcher, waiter = spawn(watch), spawn(wait)
        syncless.sleep(0.001)
        event.set()
        syncless.wait([waiter])
        assert bool(ran) != bool(seen)
        killed += bool(seen)
        explore(0)
        watcher.kill()
        syncless.wait([watcher])
    assert 0 < killed < 59, killed
    """
    run(program)


@needs_assertions
def test_stackless_keeps_the_order_that_it_promises():
    program = """
    from syncless import stackless
    found = []
    channel = stackless.channel()
    for name in "abcdefgh":
        stackless.tasklet(lambda name: found.append(channel.receive() + name))(name)
    stackless.run()
    for number in range(8):
        channel.send(str(number))
    stackless.run()
    print(*found)
    """
    for seed in range(1, 4):
        assert run(program, seed) == run(program) == "0a 1b 2c 3d 4e 5f 6g 7h\n"
