"""The child of a fork, before and after the engine has seen to it."""

import pytest

from tests.programs import run_python


def test_no_tasklet_of_the_parent_runs_in_what_others_do_first_in_a_child():
    assert (
        run_python("""
import os, sys

def take_turns():
    for _ in range(1000):
        sys.modules["syncless._core.current"].give_way()

os.register_at_fork(after_in_child=take_turns)  # called before syncless's own
import syncless

ran = set()
def tick():
    while True:
        ran.add(os.getpid())
        syncless.sleep(0)

syncless.spawn(tick)
syncless.sleep(0)
child = os.fork()
if not child:
    take_turns()
    os._exit(len(ran))
print(ran == {os.getpid()}, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
        == "True 1\n"
    )


WAITS = {
    "a thread": "with ThreadPoolExecutor(1) as pool: assert pool.submit(abs, -7).result() == 7",
    "time": "time.sleep(0.001)",
    "a timer": "event = threading.Event(); threading.Timer(0.001, event.set).start(); event.wait()",
    "a queue": "start(items.put, 1); assert items.get() == 1",
    "a socket": "a, b = socket.socketpair(); start(a.send, b'x'); assert b.recv(1) == b'x'",
    "select": "a, b = socket.socketpair(); start(a.send, b'x'); assert select.select([b], [], [])[0] == [b]",
    "a process": "assert subprocess.run(['true']).returncode == 0",
    "a name": "socket.getaddrinfo('localhost', 80)",
    "a file": "assert pathlib.Path(os.__file__).read_text()",
    "a real thread": "import syncless; assert syncless.run_in_thread(abs, -7) == 7",
    "asyncio": "assert asyncio.run(asyncio.sleep(0.001, 7)) == 7",
}
IMPORTS = """
import asyncio, gc, os, pathlib, queue, select, signal, socket, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
items = queue.Queue()
def start(function, argument):
    threading.Thread(target=function, args=(argument,)).start()
"""
WAITING = """
def wait():
    %s
os.register_at_fork(%s=wait)                    # before syncless registers its own
from syncless import patches, run_in_thread, sleep, spawn
patches.patch_all()

reader, writer = os.pipe()
turns = []
def parents():
    while True:
        turns.append(os.getpid())
        sleep(0)
spawn(parents)
busy = threading.Event()
spawn(run_in_thread, lambda: (busy.set(), os.read(reader, 1)))  # a thread of the parent's, while it forks
busy.wait()
wait()
signal.alarm(150)                               # a child has none of its own
child = os.fork()
if not child:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    wait()                                      # and so it goes on
    os._exit(len({*turns}))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), {*turns} == {os.getpid()})
os.write(writer, b"x")
wait()
"""


@pytest.mark.parametrize("waits", WAITS)
@pytest.mark.parametrize("when", ["before", "after_in_parent", "after_in_child"])
def test_a_hook_of_another_library_may_wait(when, waits):
    assert run_python(IMPORTS + WAITING % (WAITS[waits], when)) == "1 True\n"


def test_hooks_registered_before_objects_were_frozen():
    frozen = "os.register_at_fork(before=int, after_in_parent=int, after_in_child=int)\ngc.freeze()\n"
    program = IMPORTS + frozen + WAITING % (WAITS["a thread"], "after_in_child")
    assert run_python(program + "print(gc.get_freeze_count() > 0)") == "1 True\nTrue\n"


@pytest.mark.parametrize("waits", WAITS)
def test_a_child_that_a_library_in_c_has_forked_begins_with_its_first_wait(waits):
    forked = WAITING.replace("os.fork()", "fork()").replace("os.register_at_fork(%s=wait)", "# %s")
    program = "import ctypes\nfork = ctypes.PyDLL(None).fork\n" + IMPORTS + forked
    assert run_python(program % (WAITS[waits], "")) == "1 True\n"


def test_an_error_in_a_hook_of_ours_keeps_no_other_from_being_called():
    program = """
import os, sys
from syncless._core.cpython.forkhooks import at_fork

def fail():
    raise ValueError("here")

sys.unraisablehook = lambda told: os.write(1, f"{told.exc_value}\\n".encode())
at_fork(before=lambda: os.write(1, b"second\\n"))
at_fork(before=fail, in_child=fail, in_parent=fail)
at_fork(in_child=lambda: os.write(1, b"child\\n"), in_parent=lambda: os.write(1, b"parent\\n"))
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""
    told = run_python(program).splitlines()
    assert told[:2] == ["second", "here"]
    assert sorted(told[2:]) == ["child", "here", "here", "parent"]


def test_a_child_that_does_not_wait_has_no_descriptors_of_its_own_and_wakes_nobody():
    program = """
import os, signal, sys
import syncless
from syncless._core.cpython.forkhooks import at_fork, look

syncless.sleep(0.001)
calls = []
at_fork(at_first_use=lambda: calls.append("used"))

def polls():
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}").startswith("anon_inode:[event")
        except OSError:
            pass
    return found

before = polls()  # none in a portable build
child = os.fork()
if not child:
    told = [polls(), signal.set_wakeup_fd(-1), len(calls)]
    syncless.sleep(0.001)
    told += [polls() == before, signal.set_wakeup_fd(-1) >= 0]
    look()
    look()
    told.append(len(calls))
    if os.fork() == 0:
        os.write(1, repr([*told, polls()]).encode() + b"\\n")
        os._exit(0)
    os.wait()
    os._exit(0)
os.waitpid(child, 0)
syncless.sleep(0.001)
print(polls() == before, signal.set_wakeup_fd(-1) >= 0, calls)
"""
    assert run_python(program) == "[0, -1, 0, True, True, 1, 0]\nTrue True []\n"


def test_what_a_child_has_not_used_is_set_right_before_its_end():
    program = """
import atexit, os
import syncless
from syncless._core.cpython.forkhooks import at_fork

atexit.register(lambda: os.write(1, b"end\\n"))
at_fork(at_first_use=lambda: os.write(1, b"used\\n"))
child = os.fork()
if child:
    os.waitpid(child, 0)
    os._exit(0)
"""
    assert run_python(program) == "used\nend\n"
