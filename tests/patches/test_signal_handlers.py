"""A handler of a signal is the main thread's, in the child of a fork, too; the interpreter without the patch
says what that means."""

import sys

import pytest

from tests.programs import run_patched, run_python

FORKS = '''
import asyncio, multiprocessing, os, signal, sys, threading, time, traceback

class Error(Exception):
    pass

def fail(number, frame):
    raise Error

def leave(number, frame):
    sys.exit(3)

HANDLERS = {"an exception": fail, "SystemExit": leave, "Ctrl-C": signal.default_int_handler}

def child(handler, told):
    """Tells the parent that it waits, and then what its wait raised. Nobody else handles that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)        # for the traceback
    assert threading.current_thread() is threading.main_thread()
    signal.signal(signal.SIGINT, handler)
    try:
        os.write(told, b"waits ")
        while True:                                     # unpatched, a signal may come just before the wait
            time.sleep(100 if "syncless" in sys.modules else 0.05)
    except BaseException as error:
        os.write(told, type(error).__name__.encode())
        raise

def fork(handler, told):
    if (pid := os.fork()) == 0:
        try:
            child(handler, told)
        except BaseException:
            if threading.main_thread().name != "MainThread":
                os._exit(98)                            # a forked thread's end hangs in Python 3.13
            raise
        os._exit(99)
    return pid

def end_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def by_fork(handler, told, interrupt):
    pid = fork(handler, told)
    interrupt(pid)
    return end_of(pid)

def by_double_fork(handler, told, interrupt):
    inner, outer = os.pipe()
    if (pid := os.fork()) == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # it is its child's
        grandchild = fork(handler, told)
        os.write(outer, b"%d" % grandchild)
        os._exit(end_of(grandchild) % 256)
    interrupt(int(os.read(inner, 20)))
    return end_of(pid)

def by_multiprocessing(handler, told, interrupt):
    process = multiprocessing.get_context("fork").Process(target=child, args=(handler, told))
    process.start()
    interrupt(process.pid)
    process.join()
    return process.exitcode

def all_of_them():
    for how in (by_fork, by_double_fork, by_multiprocessing):
        for what, handler in HANDLERS.items():
            heard, told = os.pipe()
            def interrupt(pid):
                assert os.read(heard, 6) == b"waits "
                os.kill(pid, signal.SIGINT)
            code = how(handler, told, interrupt)
            os.close(told)
            print(how.__name__, what, os.read(heard, 100).decode(), code, flush=True)

async def in_coroutine():
    all_of_them()
'''

PLACES = {
    "main": "all_of_them()",
    "thread": "thread = threading.Thread(target=all_of_them); thread.start(); thread.join()",
    "coroutine": "asyncio.run(in_coroutine())",
    "OS thread": "asyncio.run(asyncio.to_thread(all_of_them))",
}


def both_ways(program):
    """The output of a program, which must be the same without the patch and with it."""
    unpatched = run_python(program)
    done = run_patched(program)
    assert done.stdout == unpatched and not done.stderr, done.stdout + done.stderr
    return unpatched


@pytest.mark.parametrize("place", PLACES)
def test_what_a_handler_raises_in_the_child_of_a_fork_ends_its_wait(place):
    if place != "main" and sys.version_info >= (3, 13):
        pytest.skip("unpatched, such children hang at their end since Python 3.13")
    told = both_ways(FORKS + PLACES[place])
    lines = told.splitlines()
    assert len(lines) == 9
    for line in lines:
        assert ("Error" in line) + ("SystemExit SystemExit" in line) + ("KeyboardInterrupt" in line) == 1


IDENTITY = '''
import contextvars, os, signal, subprocess, sys, threading, time

local, variable, lock = threading.local(), contextvars.ContextVar("variable"), threading.RLock()
local.value = 5
variable.set(6)
seen = []

def handler(number, frame):
    with lock:                                  # which main holds
        seen.append((
            threading.current_thread() is threading.main_thread(), threading.get_ident() == main,
            local.value, variable.get(), lock._is_owned(),
        ))
    local.value, local.other = 7, 8
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    came.set()

def send():
    os.kill(os.getpid(), signal.SIGUSR1)

def main_waits(wait):
    """Interrupted by a handler, with what main has in the end."""
    came.clear()
    local.value = 5
    variable.set(6)
    with lock:
        wait()
    print(seen, local.value, local.other)

main, came = threading.get_ident(), threading.Event()
signal.signal(signal.SIGUSR1, handler)
'''

WAITS = {
    "for an event that the handler sets": """
def wait():
    thread.start()
    came.wait()
thread = threading.Thread(target=send)
main_waits(wait)
thread.join()
""",
    "for a thread that computes": """
def compute():
    send()
    while not came.is_set():
        time.sleep(0)
def wait():
    thread.start()
    thread.join()
thread = threading.Thread(target=compute)
main_waits(wait)
""",
    "while nothing else happens": """
def wait():
    process = subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -USR1 {os.getpid()}"])
    while not came.is_set():
        time.sleep(0.05)
    process.wait()
main_waits(wait)
""",
    "in a task of asyncio": """
import asyncio
async def run():
    task = asyncio.create_task(asyncio.sleep(0.01))
    send()
    await task
def wait():
    asyncio.run(run())
main_waits(wait)
""",
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_handler_has_the_identity_of_main(wait):
    told = both_ways(IDENTITY + WAITS[wait])
    assert told == "[(True, True, 5, 6, True)] 7 8\n"


def test_a_handler_is_given_the_frame_that_waits():
    both_ways("""
import os, signal, subprocess, sys, threading, time
seen = []
def handler(number, frame):
    seen.append((frame.f_code.co_name, sys._getframe(1) is not None))
signal.signal(signal.SIGUSR1, handler)
kill = f"sleep 0.2; kill -USR1 {os.getpid()}"
def in_function():
    process = subprocess.Popen(["sh", "-c", kill])
    while not seen:
        time.sleep(0.05)
    process.wait()
in_function()
lock = threading.Lock()
lock.acquire()
process = subprocess.Popen(["sh", "-c", kill])
while len(seen) < 2:
    lock.acquire(timeout=0.05)
process.wait()
print(seen)
""")


def test_a_context_variable_that_a_handler_sets_is_set_in_main():
    both_ways("""
import contextvars, os, signal, threading
variable = contextvars.ContextVar("variable", default=1)
signal.signal(signal.SIGUSR1, lambda number, frame: variable.set(2))
def kill():
    waits.wait()
    os.kill(os.getpid(), signal.SIGUSR1)
def wait():
    waits.set()
    thread.join()
for context in (None, contextvars.copy_context()):
    waits, thread = threading.Event(), threading.Thread(target=kill)
    thread.start()
    context.run(wait) if context is not None else wait()
    print(variable.get(), None if context is None else context[variable])
""")


def test_main_goes_on_when_the_handler_has_returned():
    """Its wait ends meanwhile, by a wake-up or in time."""
    both_ways("""
import os, queue, signal, threading, time
seen = []
def handler(number, frame):
    thread.join()                   # main's wait has ended
    time.sleep(0.01)
    seen.append("handler")
signal.signal(signal.SIGUSR1, handler)
def work():
    os.kill(os.getpid(), signal.SIGUSR1)
    waited.put("item")
waited = queue.Queue()
thread = threading.Thread(target=work)
thread.start()
seen.append(waited.get())
print(seen)
def work():
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.05)
thread = threading.Thread(target=work)
seen.clear()
with threading.Lock() as _:
    lock = threading.Lock()
    lock.acquire()
    thread.start()
    seen.append(lock.acquire(timeout=0.01))
print(seen)
""")


def test_handlers_nest_on_top_of_one_another():
    """The second interrupts the first where that waits; an exception of it is raised there."""
    both_ways("""
import os, signal, threading, time
seen = []
class Stop(Exception): pass
def first(number, frame):
    seen.append("first begins")
    inside.set()
    try:
        time.sleep(100)
    except Stop:
        seen.append("first is stopped")
def second(number, frame):
    seen.append("second in " + frame.f_code.co_name)
    raise Stop
signal.signal(signal.SIGUSR1, first)
signal.signal(signal.SIGUSR2, second)
inside = threading.Event()
def send():
    os.kill(os.getpid(), signal.SIGUSR1)
    inside.wait()
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGUSR2)
thread = threading.Thread(target=send)
thread.start()
thread.join()
print(seen)
""")


def test_a_handler_that_forks_goes_on_in_the_child_and_main_after_it():
    both_ways("""
import os, signal, threading, time
children = []
def handler(number, frame):
    children.append(os.fork())
signal.signal(signal.SIGUSR1, handler)
before = time.monotonic()
left, right = os.pipe()
def send():
    os.kill(os.getpid(), signal.SIGUSR1)
thread = threading.Thread(target=send)
thread.start()
time.sleep(0.3)
if children == [0]:
    os._exit(7 if time.monotonic() - before >= 0.3 else 8)
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
""")


def test_waits_of_main_go_on_after_a_handler():
    """PEP 475: with what is left of their time."""
    both_ways("""
import os, select, signal, socket, subprocess, threading, time
count = []
signal.signal(signal.SIGALRM, lambda number, frame: count.append(frame.f_code.co_name))
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
left, right = socket.socketpair()
left.settimeout(0.2)
event, lock = threading.Event(), threading.Lock()
lock.acquire()
reader, writer = os.pipe()
def silent():
    try:
        left.recv(10)
    except TimeoutError:
        pass
for wait in (
    lambda: time.sleep(0.2), lambda: event.wait(0.2), lambda: lock.acquire(timeout=0.2), silent,
    lambda: select.select([reader], [], [], 0.2), lambda: subprocess.run(["sleep", "0.2"]),
):
    began, before = time.monotonic(), len(count)
    wait()
    assert time.monotonic() - began >= 0.19, wait
    assert len(count) > before, wait
threading.Timer(0.2, os.write, (writer, b"data")).start()
print(os.read(reader, 10))
signal.setitimer(signal.ITIMER_REAL, 0)
""")


def test_an_exception_of_a_handler_ends_any_wait_of_main():
    both_ways("""
import os, select, signal, socket, subprocess, sys, threading, time, queue
class Alarm(Exception): pass
def fail(number, frame):
    raise Alarm
signal.signal(signal.SIGALRM, fail)
left, right = socket.socketpair()
event, lock, condition = threading.Event(), threading.Lock(), threading.Condition()
lock.acquire()
reader, writer = os.pipe()
thread = threading.Thread(target=event.wait)
thread.start()
process = subprocess.Popen(["sleep", "100"])
def condition_wait():
    with condition:
        condition.wait()
for wait in (
    lambda: time.sleep(100), event.wait, lock.acquire, lambda: left.recv(10), thread.join, condition_wait,
    lambda: select.select([reader], [], []), lambda: os.read(reader, 1), queue.Queue().get,
    queue.SimpleQueue().get, process.wait, lambda: left.sendall(bytes(10_000_000)), signal.pause,
):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        wait()
    except Alarm as error:
        print("raised")
process.kill()
process.wait()
event.set()
""")
