"""syncless.debug: which tasklet holds a lock, and circles of tasklets that wait for one another."""

import logging
import threading
import time

import pytest

import syncless
from syncless import Event, Lock, RLock, debug, run_in_thread, select, sleep, spawn
from syncless.io import socket
from tests.programs import run_unchecked
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def named(name, function, *args):
    tasklet = spawn(function, *args)
    tasklet.name = name
    return tasklet


def take_both(first, second):
    with first:
        sleep(0.001)
        with second:
            pass


def fork_and_knife(first, second):
    """Two tasklets, each of which holds one lock and waits for the other."""
    tasklets = [named("fork", take_both, first, second), named("knife", take_both, second, first)]
    assert eventually(lambda: all(tasklet.waiting_for == "lock" for tasklet in tasklets))
    return tasklets


def end(tasklets):
    for tasklet in tasklets:
        tasklet.kill()


@pytest.mark.parametrize("make", [Lock, RLock])
def test_dump_names_the_holder_of_each_lock_and_the_circle(make):
    first, second = make(), make()
    tasklets = fork_and_knife(first, second)
    third = named("spoon", first.acquire)
    sleep(0)
    text = debug.format_tasklets()
    number = tasklets[1].number
    assert f": <Lock held by tasklet {number}>, held by knife\n" in debug.describe(tasklets[0], stack=False)
    assert text.count("held by fork\n") == 2 and text.count("held by knife\n") == 1
    assert text.splitlines()[-1] in (
        "deadlock: fork waits for knife waits for fork",
        "deadlock: knife waits for fork waits for knife",
    )
    assert debug.find_deadlocks() == [tasklets]
    end([*tasklets, third])
    assert "deadlock: " not in debug.format_tasklets(stacks=False)


def test_holder_is_right_after_each_way_to_take_a_lock():
    lock = Lock()
    assert repr(lock) == "<Lock unlocked>" and lock.holder == 0
    lock.acquire()
    assert lock.holder == syncless.current().number
    waits, selects = spawn(lock.acquire), spawn(select, [lock, Event()])
    sleep(0)
    lock.release()
    assert lock.holder == waits.number
    waits.join()
    lock.release()
    assert lock.holder == selects.number
    selects.join()
    lock.release()
    assert spawn(select, [lock]).result() == (0, None) and lock.holder not in (0, selects.number)
    lock.release()
    assert lock.holder == 0
    thread = threading.Thread(target=lock.acquire)  # it has no tasklets
    thread.start()
    run_in_thread(thread.join)
    assert repr(lock) == "<Lock locked>"


@pytest.fixture
def told():
    found = []
    debug.report_deadlocks(found.append)
    yield found
    debug.report_deadlocks(None)


@pytest.mark.parametrize("busy", [False, True])
def test_circle_is_reported_while_a_server_listens_and_others_run(told, busy, monkeypatch):
    monkeypatch.setattr(debug._DeadlockReport, "BUSY_SECONDS", 0.01)

    def runs():
        while True:
            time.sleep(0.001 if busy else 0)  # holds the loop, and gives way without a wait
            sleep(0 if busy else 0.001)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        others = [spawn(listener.accept), spawn(runs)]
        tasklets = fork_and_knife(Lock(), Lock())
        assert eventually(lambda: told)
        sleep(0.05)
        assert [set(circle) for circle in told] == [set(tasklets)]  # once
        end([*tasklets, *others])


def test_tasklets_that_join_one_another_are_reported(told):
    tasklets = []
    tasklets += [named("one", lambda: tasklets[1].join()), named("two", lambda: tasklets[0].join())]
    assert eventually(lambda: told) and set(told[0]) == set(tasklets)
    end(tasklets)


def test_waits_that_end_are_not_reported(told):
    first, second = Lock(), Lock()

    def gives_up():
        with second:
            sleep(0.001)
            assert not first.acquire(timeout=0.02)

    syncless.join_all([spawn(take_both, first, second), spawn(gives_up), spawn(first.acquire)])
    assert not told and debug.find_deadlocks() == []


def test_circle_across_threads_is_found(told):
    first, second, done = Lock(), Lock(), Event()
    theirs, both_hold = [], (Event(), Event())

    def take_second_when_both_hold_one(number):
        locks = (first, second)
        with locks[number]:
            both_hold[number].set()
            both_hold[1 - number].wait()
            with locks[1 - number]:
                pass

    def body():
        theirs.append(named("theirs", take_second_when_both_hold_one, 1))
        done.wait()
        theirs[0].kill()

    thread = threading.Thread(target=body)
    ours = named("ours", take_second_when_both_hold_one, 0)
    thread.start()
    assert eventually(lambda: told)
    assert {tasklet.name for tasklet in told[0]} == {"ours", "theirs"}
    done.set()
    ours.kill()
    run_in_thread(thread.join)


def test_log_tells_the_circle_with_the_stacks(caplog):
    with caplog.at_level(logging.ERROR, logger="syncless.debug"):
        debug.report_deadlocks()
        tasklets = fork_and_knife(Lock(), Lock())
        assert eventually(lambda: caplog.text)
        debug.report_deadlocks(None)
    assert (
        "in take_both" in caplog.text
        and ", held by knife" in caplog.text
        and "waits for knife waits for fork" in caplog.text
    )
    end(tasklets)


PATCHED = """
import sys, threading, time
from syncless.patches import patch_all
patch_all()
from syncless import debug

class Condition(threading.Condition):   # waits by the standard library's own code
    pass

told = threading.Event()
found = []
debug.report_deadlocks(lambda circle: (found.append(circle), told.set()))
first, second, condition = threading.{kind}(), threading.{kind}(), Condition()

def both(one, other):
    with one:
        time.sleep(0.01)
        with other:
            pass

def waits():
    with condition:
        condition.wait()

threads = [threading.Thread(target=waits, name="waits", daemon=True),
           threading.Thread(target=both, args=(first, second), name="fork", daemon=True),
           threading.Thread(target=both, args=(second, first), name="knife", daemon=True)]
for thread in threads:
    thread.start()
assert told.wait(20)
time.sleep(0.05)
assert len(found) == 1 and len(found[0]) == 2, found
text = debug.format_tasklets()
# the third is the condition's lock, in which its tasklet waits for itself
assert text.count(", held by ") == 3, text
circle = text.splitlines()[-1]
assert circle.startswith("deadlock: ") and "thread knife" in circle, text
assert "thread fork waits for " in circle, text
"""


@pytest.mark.virtual_time(False)  # another process
@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_patched_locks_have_holders_and_circles(kind):
    program = PATCHED.replace("{kind}", kind)
    done = run_in_thread(run_unchecked, program)
    assert done.returncode == 0, done.stderr
