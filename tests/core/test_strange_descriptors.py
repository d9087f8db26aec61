"""The loop's own descriptors are closed, or replaced, by the program that it runs in: it goes on with new
ones, at no CPU time, and never touches the files that have got their numbers."""

import os

import pytest

from syncless._core.poll.backends import BACKENDS
from tests.programs import run_unchecked

SETUP = """
import os, select, signal, socket, sys, threading
def numbers():
    listed = os.listdir("/proc/self/fd")
    return {int(fd) for fd in listed if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")}
before = numbers()
import syncless
from syncless import current_loop, run_in_thread, sleep, spawn, wait_readable
sleep(0)
run_in_thread(int)                       # the pool's thread is there
ours = sorted(numbers() - before)
assert ours, current_loop().backend
files = []
def replace(fd):
    '''The number is a file of the program from now on.'''
    path = str(len(files))
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, b"kept")
    os.lseek(file, 0, os.SEEK_SET)       # a read of the loop would move it
    if file != fd:
        os.dup2(file, fd)
        os.close(file)
    files.append((path, fd))
came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append("signal"))
def works():
    '''Timers, descriptors, other threads and signals wake tasklets.'''
    sleep(0.001)
    left, right = socket.socketpair()
    spawn(lambda: (sleep(0.001), right.send(b"x")))
    wait_readable(left, 20)
    assert left.recv(1) == b"x"
    assert run_in_thread(lambda: 7) == 7
    came.clear()
    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    with syncless.Timeout(20):
        while not came:
            sleep(0.001)
    left.close()
    right.close()
def untouched():
    for path, fd in files:
        assert open(path, "rb").read() == b"kept", path
        assert os.lseek(fd, 0, os.SEEK_CUR) == 0 and os.fstat(fd).st_ino == os.stat(path).st_ino
"""


@pytest.fixture
def backend():
    return next(iter(BACKENDS))


@pytest.fixture
def run(tmp_path, backend):
    """run(program) in a new process, to its end."""

    def begin(program):
        whole, environment = f'{SETUP}{program}print("done")', {**os.environ, "SYNCLESS_LOOP": backend}
        done = run_unchecked(whole, cwd=tmp_path, env=environment)
        assert done.stdout == "done\n", done.stderr

    return begin


pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="asks Linux for its descriptors")
backends = pytest.mark.parametrize("backend", sorted(BACKENDS))


@backends
def test_closed_descriptors_are_made_anew(run):
    run(
        """
for fd in ours:
    os.close(fd)
works()
works()
assert len(numbers() - before) == len(ours), (ours, numbers())
"""
    )


@backends
@pytest.mark.parametrize("which", ["all", 0, 1, 2])
def test_files_that_got_their_numbers_are_left_alone(run, which):
    run(
        f"""
which = {which!r}
for fd in ours if which == "all" else ours[which:][:1]:
    replace(fd)
run_in_thread(lambda: None)              # wakes a loop that cannot know yet
works()
works()
untouched()
"""
    )


@backends
def test_loop_does_not_spin_when_the_end_by_which_others_wake_it_has_gone(run):
    run(
        """
sleep(0)
os.close(ours[-1])
polls = []
with syncless.Timeout(20):
    current_loop().when_idle = lambda loop: polls.append(1)
    sleep(0.2)
    current_loop().when_idle = None
assert len(polls) < 20, len(polls)
works()
"""
    )


@backends
def test_loop_that_sleeps_already_is_woken(run):
    """By another OS thread, after a third has replaced its descriptors."""
    run(
        """
import _thread
event = syncless.Event()
def replace_and_wake():
    for fd in ours[-1:]:                 # by which others wake it
        replace(fd)
    event.set()
if current_loop().backend == "epoll":
    threading.Timer(0.05, replace_and_wake).start()
    assert event.wait(20)
works()
untouched()
"""
    )


@backends
def test_tasklets_that_wait_already_are_woken_by_the_new_ones(run):
    run(
        """
left, right = socket.socketpair()
waiter = spawn(wait_readable, left, 20)
sleep(0.001)
for fd in ours:
    replace(fd)
sleep(0.001)
right.send(b"x")
assert waiter.result() is True
untouched()
"""
    )


def test_thread_beside_the_loop_goes_on(run):
    run(
        """
from syncless._core.calls.sidethread import SideThread
from syncless._core.calls import sidethread
import time
known, steps, hold, held = numbers(), [], [], []
def step(woken):
    while hold:                          # or it might close a number that is replaced this very moment
        held[:] = hold
        time.sleep(0.001)
    steps.append(sidethread.wait_readable([woken], 0.02))
    return True
beside = SideThread(step)
beside.start()
hold.append(True)
while not held:
    sleep(0.001)
for fd in numbers() - known:
    replace(fd)
hold.clear()
seen = len(steps)
while len(steps) < seen + 5:
    sleep(0.001)
assert not any(steps[-3:])               # it waits for its whole time
assert beside.stop()
untouched()
"""
    )


def test_child_of_a_fork_does_not_touch_the_parents(run):
    """As a daemon does: the child closes everything and opens its own files."""
    run(
        """
pid = os.fork()
if not pid:
    try:
        os.closerange(3, 100)
        for fd in range(3, 10):
            replace(fd)
        works()
        untouched()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
works()
"""
    )


@pytest.mark.skipif("epoll" not in BACKENDS, reason="needs epoll")
def test_epoll_of_the_program_in_its_place_keeps_what_is_registered(run):
    run(
        """
mine = select.epoll()
left, right = socket.socketpair()
mine.register(left, select.EPOLLIN)
os.dup2(mine.fileno(), ours[0])
waiter = spawn(wait_readable, left, 20)
sleep(0)
right.send(b"x")
assert waiter.result() is True
assert mine.poll(0) == [(left.fileno(), select.EPOLLIN)]
works()
assert mine.poll(0) == [(left.fileno(), select.EPOLLIN)]
"""
    )
