"""OS threads beside the loop, which are not there while the process forks."""

import os
import threading

import pytest

import syncless
from syncless._core.calls import sidethread
from syncless._core.calls.sidethread import SideThread, wait_readable
from syncless._core.calls.threads import ThreadPool
from tests.kernel import needs_no_emulator
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine a step may take long to end."""
    monkeypatch.setattr(sidethread, "PATIENCE", 60)


class Counting:
    """A side thread that counts its steps; each lasts until it is told to end."""

    def __init__(self, **more):
        self.steps, self.threads = 0, set()
        self.waited_out = 0
        self.side = SideThread(self.step)

    def step(self, descriptor):
        self.threads.add(threading.get_native_id())
        self.steps += 1
        self.waited_out += not wait_readable([descriptor], 100)
        return True

    def __enter__(self):
        self.side.start()
        assert eventually(lambda: self.steps)
        return self

    def __exit__(self, *error):
        assert self.side.stop()


def os_threads():
    return {int(name) for name in os.listdir("/proc/self/task")}


linux = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="counts threads as Linux lists them")


def fork(in_child=lambda: None):
    """The exit status of the child."""
    if (pid := os.fork()) == 0:
        status = 9
        try:
            status = in_child() or 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@linux
@needs_no_emulator
def test_thread_is_not_there_while_the_process_forks_and_goes_on_in_the_parent():
    with Counting() as one:
        before = set(one.threads)
        assert before <= os_threads()
        sidethread._before_fork()
        seen = before & os_threads()
        sidethread._after_fork_in_parent()
        assert not seen
        assert eventually(lambda: one.threads - before)
        before = set(one.threads)
        assert fork(lambda: len(os_threads()) - 1) == 0
        assert eventually(lambda: one.threads - before) and one.steps >= 2


@linux
def test_idle_threads_of_a_pool_end_at_a_fork_and_the_pool_works_on():
    pool = ThreadPool(3)
    began, busy = threading.Event(), threading.Event()
    held = syncless.spawn(pool.run, lambda: (began.set(), busy.wait(60), threading.get_native_id())[2])
    assert eventually(began.is_set)
    idle = {pool.run(threading.get_native_id) for _ in range(3)}
    assert idle <= os_threads()
    assert fork(lambda: 0 if syncless.run_in_thread(int, "5") == 5 else 1) == 0
    assert not idle & os_threads()
    busy.set()
    assert held.result() in os_threads() and pool.run(int, "7") == 7
    assert eventually(lambda: pool._idle)  # threads are kept again
    pool.end_threads()


def test_fork_does_not_wait_for_the_end_of_a_wait():
    with Counting() as one:
        for number in range(1, 6):
            assert one.steps == number and fork() == 0
            # the wait has been ended for the fork
            assert eventually(lambda before=number: one.steps > before)
        assert one.waited_out == 0  # it would have lasted 100 s


def test_thread_that_has_ended_is_not_started_again():
    ended = threading.Event()
    side = SideThread(lambda descriptor: ended.set())
    side.start()
    assert ended.wait(60) and eventually(lambda: side not in sidethread._started)
    ended.clear()
    assert fork() == 0 and not ended.is_set()
    assert side.stop() and side.stop()


def test_stopped_thread_is_not_started_again():
    with Counting() as one:
        pass
    steps = one.steps
    assert fork() == 0
    assert one.steps == steps


def test_step_may_fork():
    statuses = []

    def step(descriptor):
        statuses.append(fork())
        return False

    side = SideThread(step)
    side.start()
    assert eventually(lambda: statuses) and statuses == [0]
    assert side.stop()


def test_thread_whose_end_was_not_waited_for_leaves_no_descriptor(monkeypatch):
    monkeypatch.setattr(sidethread, "PATIENCE", 0.01)
    release = threading.Event()
    steps = []
    side = SideThread(lambda descriptor: steps.append(1) or release.wait(60))
    side.start()
    assert eventually(lambda: steps)
    assert not side.stop()
    ours = side._life._ours
    del side
    release.set()
    assert eventually(lambda: ours.fileno() == -1)


def test_fork_goes_on_without_a_step_that_does_not_end(monkeypatch):
    monkeypatch.setattr(sidethread, "PATIENCE", 0.01)
    release = threading.Event()
    steps = []

    def step(descriptor):
        steps.append(1)
        release.wait(60)
        return True

    side = SideThread(step)
    side.start()
    assert eventually(lambda: steps)
    assert fork() == 0
    release.set()
    assert eventually(lambda: len(steps) > 1)  # it was only the fork for which it had to end
    assert eventually(side.stop)


def test_thread_goes_on_after_a_lack_of_memory():
    class Short(Counting):
        def step(self, descriptor):
            if not self.steps:
                self.steps += 1
                raise MemoryError
            return super().step(descriptor)

    with Short() as one:
        assert eventually(lambda: one.steps == 2)
