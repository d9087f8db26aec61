"""A process that is killed or stopped, at any instruction: nothing stays locked, and all values are whole."""

import contextlib
import os
import random
import signal

import pytest

import syncless
from syncless.shared import Counter, Lagged, Lock, Mapping, Unavailable, figures, publish, subscribe
from tests.waiting import eventually


@contextlib.contextmanager
def child(work):
    """A process that calls work() again and again, until it is killed at the end."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                work()
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def pause():
    """Whoever has just had the mutex knows that the other process is about to get it: not so after this."""
    syncless.sleep(random.random() * 0.01)


def change():
    """Most of its time it has the mutex."""
    for letter in b"abc":
        Mapping("values").set("k", bytes([letter]) * 30_000)
        Mapping("values").set(f"{letter}", bytes([letter]) * 3000)
        publish("changes", bytes(9000))
    Counter("rounds").add()


def test_process_killed_in_a_change_leaves_the_store_whole():
    """Until one of them had the mutex: the next one makes the lists of cells anew."""
    Counter("kept").add(7)
    for number in range(500):
        with child(change):
            assert eventually(lambda number=number: Counter("rounds").get() > number)
            pause()
        rounds = Counter("rounds").get()
        for key in ("k", "97", "98", "99"):
            value = Mapping("values").get(key)
            assert value is None or (len(set(value)) == 1 and len(value) in (3000, 30_000))
        assert Counter("rounds").add() == rounds + 1 and Counter("kept").get() == 7
        if figures()["repaired"] > 2:
            break
    assert figures()["repaired"] > 2
    publish("changes", bytes(9000))  # for the one whose writer died after it had made room
    with subscribe("changes", after=0) as subscription:
        with pytest.raises(Lagged):
            subscription.get(0)
        assert len({subscription.get(0).number for _ in range(7)}) == 7  # as many as there is room for
    for key in ("k", "97", "98", "99"):
        Mapping("values").pop(key)
    assert figures()["entries"] == 2 and figures()["used_bytes"] == 2 * 128
    for number in range(998):  # no cell is lost
        Counter(f"{number}").add()
    assert figures()["entries"] == 1000


def test_process_stopped_in_a_change_holds_up_no_other_tasklet():
    with child(change) as pid:
        assert eventually(lambda: Counter("rounds").get() > 0)
        for _ in range(500):
            pause()
            os.kill(pid, signal.SIGSTOP)
            os.waitpid(pid, os.WUNTRACED)
            turns = []
            ticker = syncless.spawn(lambda turns=turns: [turns.append(syncless.sleep(0)) for _ in range(20)])
            try:
                Counter("hits").add()
                told = None
            except Unavailable as error:
                told = str(error)
            meanwhile = len(turns)
            ticker.join()
            os.kill(pid, signal.SIGCONT)
            if told is not None:
                break
        assert told == "the shared memory has been held for 2 s by a process that is stopped"
        assert meanwhile == 20
        assert Counter("hits").add() > 0


def test_lock_of_a_killed_process_is_taken_by_who_waits_for_it():
    lock, told = Lock("import"), os.pipe()

    def hold():
        assert lock.acquire()
        os.write(told[1], b"held")
        signal.pause()

    with child(hold) as pid:
        assert os.read(told[0], 4) == b"held"
        assert not lock.acquire(False) and not lock.acquire(timeout=0)
        waiting = [syncless.spawn(Lock("import").acquire, timeout=60) for _ in range(2)]
        syncless.sleep(0)
        assert not any(each.ready() for each in waiting)
        os.kill(pid, signal.SIGKILL)
        (first,) = syncless.wait(waiting, count=1)
        assert first.result() is True
    waiting.remove(first)
    waiting[0].kill()
    for fd in told:
        os.close(fd)


def test_lock_of_a_process_that_is_dead_already_is_free():
    with child(lambda: Lock("import").acquire() and signal.pause()):
        assert eventually(Lock("import").locked)
    assert Lock("import").acquire(False) is False  # nobody looks who does not wait
    assert Lock("import").acquire(timeout=60)
