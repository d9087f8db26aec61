"""debug.find_leaks(): tasklets that nothing can wake, and none that something can."""

import ctypes
import functools
import gc
import io
import threading

import pytest

import syncless
from syncless import debug, spawn
from syncless._core.cpython.features import COUNTS_BORROWED_REFERENCES
from syncless.tools import leaks
from tests.programs import run_python
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(
    not COUNTS_BORROWED_REFERENCES, reason="reference counts of Python 3.14 and later do not tell"
)
ours = syncless.Queue()
goes_on = threading.Event()
"""The fixture sets it: then a call in a pool ends."""


@pytest.fixture(autouse=True)
def end():
    goes_on.clear()
    yield
    goes_on.set()
    for tasklet in syncless.tasklets():
        if not tasklet.is_main:
            tasklet.kill()


def waits_for(thing, wait="get"):
    getattr(thing, wait)()


def keeps(thing):
    syncless.sleep(60)
    thing.put(1)


def in_a_closure():
    inner = syncless.Queue()

    def waits():
        inner.get()

    return spawn(waits)


def with_an_object():
    class Owner:
        def __init__(self):
            self.items, self.itself = syncless.Queue(), self

        def run(self):
            self.items.get()

    return spawn(Owner().run)


def that_wait_for_one_another():
    """A pair: each could set the event for which the other waits."""
    events = syncless.Event(), syncless.Event()

    def waits(first, second):
        first.wait()
        second.set()

    return [spawn(waits, *events), spawn(waits, *reversed(events))]


def that_joins_one():
    stuck = spawn(waits_for, syncless.Queue())
    return [stuck, spawn(stuck.join)]


LEAKED = {
    "queue": lambda: spawn(waits_for, syncless.Queue()),
    "room": lambda: spawn(lambda queue: (queue.put(1), queue.put(2)), syncless.Queue(1)),
    "event": lambda: spawn(waits_for, syncless.Event(), "wait"),
    "method": lambda: spawn(syncless.Event().wait),
    "channel": lambda: spawn(waits_for, syncless.Channel(), "receive"),
    "semaphore": lambda: spawn(waits_for, syncless.Semaphore(0), "acquire"),
    "closure": in_a_closure,
    "object": with_an_object,
    "one another": that_wait_for_one_another,
    "join": that_joins_one,
    "partial": lambda: spawn(functools.partial(waits_for, syncless.Queue())),
}


def started(make):
    made = make()
    tasklets = made if isinstance(made, list) else [made]
    assert eventually(lambda: all(tasklet.waiting_for for tasklet in tasklets))
    return tasklets


def numbers(tasklets):
    return sorted(tasklet.number for tasklet in tasklets)


@pytest.mark.parametrize("make", LEAKED.values(), ids=LEAKED)
def test_tasklet_that_nothing_can_wake_is_found(make):
    tasklets = started(make)
    assert numbers(debug.find_leaks()) == numbers(tasklets)


def of_a_sleeper():
    shared = syncless.Queue()
    return [spawn(waits_for, shared), spawn(keeps, shared)]


def of_a_new_tasklet():
    shared = syncless.Queue()
    return [spawn(waits_for, shared), spawn(keeps, shared)]


def of_a_callback():
    event = syncless.Event()
    sleeper = spawn(syncless.sleep, 60)
    sleeper.add_done_callback(lambda _: event.set())
    return [spawn(waits_for, event, "wait"), sleeper]


def with_a_limit():
    return spawn(syncless.Queue().get, timeout=60)


def with_a_deadline():
    def waits():
        with syncless.Timeout(60):
            syncless.Queue().get()

    return spawn(waits)


def of_a_descriptor():
    event = syncless.Event()

    def receives():
        left, right = syncless.io.socket.socketpair()
        with left, right:
            left.recv(1)
            event.set()

    return [spawn(receives), spawn(event.wait)]


def that_joins_a_sleeper():
    sleeper = spawn(syncless.sleep, 60)
    return [sleeper, spawn(sleeper.join)]


def in_a_pool():
    return spawn(syncless.run_in_thread, lambda: goes_on.wait())


ALIVE = {
    "a module": lambda: spawn(waits_for, ours),
    "a sleeper": of_a_sleeper,
    "a new tasklet": of_a_new_tasklet,
    "a callback": of_a_callback,
    "a limit": with_a_limit,
    "a deadline": with_a_deadline,
    "a descriptor": of_a_descriptor,
    "a join": that_joins_a_sleeper,
    "a pool": in_a_pool,
}


@pytest.mark.parametrize("make", ALIVE.values(), ids=ALIVE)
def test_tasklet_that_something_may_wake_is_left_alone(make):
    started(make)
    assert debug.find_leaks() == []


def test_one_that_is_woken_during_the_search_is_left_alone(monkeypatch):
    """As another thread does, which then forgets it."""

    def wakes(search):
        for event in search.stuck.values():
            event.set()
        doubt(search)

    doubt = leaks._Search.doubt
    monkeypatch.setattr(leaks._Search, "doubt", wakes)
    [tasklet] = started(lambda: spawn(syncless.Event().wait))
    assert debug.find_leaks() == []
    tasklet.join()


def test_one_whose_object_a_variable_of_the_caller_keeps_is_left_alone():
    kept = syncless.Queue()
    spawn(waits_for, kept)
    syncless.sleep(0)
    assert debug.find_leaks() == []


def test_one_whose_object_only_native_code_keeps_is_left_alone():
    """As a timer keeps a callback: nobody sees the reference to the list."""
    event = syncless.Event()
    hidden = [event]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(hidden))
    tasklet = spawn(waits_for, event, "wait")
    syncless.sleep(0)
    del event, hidden
    gc.collect()
    assert debug.find_leaks() == []
    [hidden] = (one for one in gc.get_referrers(tasklet.waiting_object) if type(one) is list)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(hidden))
    del hidden
    assert debug.find_leaks() == [tasklet]


def test_print_tells_stacks_and_number():
    started(LEAKED["queue"])
    told = io.StringIO()
    debug.print_leaks(told)
    first, *others = told.getvalue().splitlines()
    assert first.startswith("1 of ") and first.endswith(" tasklets cannot be woken")
    assert any("in waits_for" in line for line in others)


PATCHED = """
from syncless.patches import patch_all
patch_all()
import queue, threading, time
from syncless import debug

kept = queue.Queue()

def condition():
    found = threading.Condition()
    with found:
        found.wait()

def take(lock):
    lock.acquire()
    lock.acquire()

leaked = [lambda: queue.Queue().get(), lambda: queue.SimpleQueue().get(), lambda: threading.Event().wait(),
          condition, lambda: take(threading.Lock())]
alive = [lambda: kept.get(), lambda: time.sleep(60), lambda: threading.Event().wait(60)]
threads = {threading.Thread(target=body, daemon=True): body in leaked for body in leaked + alive}
joiner = threading.Thread(target=list(threads)[-1].join, daemon=True)
threads[joiner] = False
for thread in threads:
    thread.start()
time.sleep(0.1)
found = debug.find_leaks()
wrong = [thread.name for thread, leaks in threads.items() if leaks != (thread.ident in map(id, found))]
assert not wrong and len(found) == len(leaked), (wrong, found)
"""


def test_threads_of_a_patched_program_that_nothing_can_wake_are_found():
    run_python(PATCHED)
