"""OS threads of before the patch: tasklets join them, and the interpreter waits for them at its end."""

import _thread

import pytest

from tests.programs import check, run_python


@pytest.mark.parametrize("patch_first", [True, False])
@pytest.mark.parametrize("interrupt", ["syncless.Timeout(0.01)", "interrupted_by_a_signal()"])
def test_thread_whose_join_is_interrupted_is_alive(patch_first, interrupt):
    patch = "from syncless.patches import patch_all; patch_all()"
    run_python(f"""
import contextlib, signal, threading
{patch if patch_first else ""}
go, joined = threading.Event(), []
thread = threading.Thread(target=go.wait)
thread.start()
{patch}
import syncless
@contextlib.contextmanager
def interrupted_by_a_signal():
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    yield
other = threading.Thread(target=lambda: (thread.join(), joined.append(1)))
other.start()
try:
    with {interrupt}:
        thread.join()
except (syncless.Timeout, ZeroDivisionError):
    pass
syncless.sleep(0)
assert thread.is_alive() and not joined
go.set()
thread.join()
other.join()
assert joined and not thread.is_alive()
""")


def test_main_and_tasklets_join_a_thread_of_before():
    """The thread ends when a tasklet lets it, so joining must not stop the OS thread either."""
    assert (
        run_python("""
import threading
go = threading.Event()
thread = threading.Thread(target=go.wait)
thread.start()
from syncless.patches import patch_all, unpatch
patch_all()
import syncless
seen, waiting = [], threading.Semaphore(0)
def join(number):
    waiting.release()
    thread.join()
    seen.append(number)
joiners = [threading.Thread(target=join, args=(number,)) for number in range(3)]
for joiner in joiners: joiner.start()
for _ in joiners: waiting.acquire()
thread.join(0.01)
assert thread.is_alive() and not seen
try:
    with syncless.Timeout(0.01):
        thread.join()
except syncless.Timeout:
    seen.append("late")
syncless.spawn(go.set)
thread.join()
for joiner in joiners: joiner.join()
assert not thread.is_alive()
print(seen[0], sorted(seen[1:]))
""")
        == "late [0, 1, 2]\n"
    )


def test_interpreter_waits_at_its_end_for_a_thread_of_before():
    assert (
        run_python("""
import os, threading, time
def late():
    while not patched:
        time.sleep(0.001)
    ending.wait()
    time.sleep(0.05)
    print("thread", flush=True)
patched, ending = [], threading.Event()
threading.Thread(target=late).start()
from syncless.patches import patch_all
patch_all()
patched.append(True)
threading._register_atexit(ending.set)
print("main", flush=True)
""")
        == "main\nthread\n"
    )


def test_interpreter_waits_at_its_end_for_threads_that_are_started_meanwhile():
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import threading, time
def chain(left):
    time.sleep(0.01)
    print(left, flush=True)
    if left:
        threading.Thread(target=chain, args=(left - 1,)).start()
threading.Thread(target=chain, args=(3,)).start()
""")
        == "3\n2\n1\n0\n"
    )


def test_interpreter_ends_while_an_executor_is_idle():
    """Its threads are no daemons: they are told to end first, and waited for then."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
from concurrent.futures import ThreadPoolExecutor
executor = ThreadPoolExecutor(2)
print(executor.submit(lambda: 5).result())
""")
        == "5\n"
    )


def test_thread_of_before_is_joined_before_a_fork():
    """As IPython does for its history: a hook of the fork joins the thread, another one starts it anew."""
    assert (
        run_python("""
import os, threading
class Saver:
    def start(self):
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.stop.wait)
        self.thread.start()
    def end(self):
        self.stop.set()
        self.thread.join()
saver = Saver()
saver.start()
os.register_at_fork(before=saver.end, after_in_parent=saver.start)
from syncless.patches import patch_all
patch_all()
def fork():
    for _ in range(3):
        if (child := os.fork()) == 0:
            os._exit(0 if saver.thread.is_alive() else 5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
fork()
forker = threading.Thread(target=fork)
forker.start()
forker.join()
saver.end()
print("forked")
""")
        == "forked\n"
    )


def test_thread_that_begins_while_patched_is_joined():
    """A thread of before starts another one, in the system, by what it took from _thread before the patch."""
    assert (
        run_python("""
import _thread, threading
start, go, made = _thread.start_new_thread, threading.Event(), []
def body():
    thread = threading.Thread(target=go.wait)
    thread._started.set()
    if hasattr(thread, "_set_tstate_lock"):
        thread._set_ident()
        thread._set_tstate_lock()
        made.append(thread)
    go.wait()
from syncless.patches import patch_all
patch_all()
import syncless
start(body, ())
if hasattr(threading.Thread, "_set_tstate_lock"):
    while not made:
        syncless.sleep(0.001)
    syncless.spawn(go.set)
    made[0].join()
else:
    go.set()
print("joined")
""")
        == "joined\n"
    )


@pytest.mark.skipif(not hasattr(_thread, "set_name"), reason="Python 3.14 names OS threads first")
def test_thread_that_is_a_tasklet_does_not_rename_the_os_thread():
    check(
        """
    import _thread, pathlib, threading
    def name_of_this():
        return pathlib.Path("/proc/self/comm").read_text().strip()
    _thread.set_name("server")
    names = []
    thread = threading.Thread(target=lambda: names.append(name_of_this()), name="request")
    thread.start()
    thread.join()
    assert names == [name_of_this()] == ["server"], names
    """
    )


@pytest.mark.skipif(not hasattr(_thread, "_get_name"), reason="Python 3.15 tells names of OS threads first")
def test_thread_that_is_a_tasklet_has_the_name_that_its_os_thread_would_have():
    check("""
    import _thread, threading
    names = []
    def name_twice():
        names.append(_thread._get_name())
        threading.current_thread().name = "x" * 14 + "é"
        names.append(_thread._get_name())
    thread = threading.Thread(target=name_twice, name="first")
    thread.start()
    thread.join()
    assert names == ["first", "x" * 14 + "\\udcc3"], names
    """)


@pytest.mark.parametrize("first", ["concurrent.futures.thread", "sys"])
def test_fork_waits_for_a_tasklet_that_submits_a_call(first):
    """Whether the module was imported before the patch or after it."""
    program = f"""
import importlib
importlib.import_module({first!r})
from syncless.patches import patch_all, unpatch
patch_all()
import concurrent.futures.thread, os, threading, time
def submit():
    with concurrent.futures.thread._global_shutdown_lock:
        held.set()
        time.sleep(0.001)
held = threading.Event()
submitter = threading.Thread(target=submit)
submitter.start()
held.wait()
pid = os.fork()
if not pid:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        os._exit(pool.submit(int, "7").result())
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
submitter.join()
unpatch()
assert not concurrent.futures.thread._global_shutdown_lock.locked()
assert concurrent.futures.ThreadPoolExecutor(1).submit(int, "8").result() == 8
print("forked")
"""
    assert run_python(program) == "forked\n"


NUMBERS = """
import asyncio, os, signal, sys, threading, time
heard, told = [], threading.Event()
def handler(number, frame):
    heard.append(threading.current_thread() is threading.main_thread())
    told.set()
def try_numbers(where):
    for thread in (threading.current_thread(), threading.main_thread()):
        signal.pthread_kill(thread.ident, 0)
        signal.pthread_kill(thread.ident, signal.SIGUSR1)
        told.wait()
        told.clear()
        if hasattr(time, "pthread_getcpuclockid"):  # macOS has none
            assert time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) > 0
    print(where, heard, flush=True)
    heard.clear()
def in_child(where):
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGUSR1, handler)
            try_numbers("child of " + where)
            sys.stdout.flush()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
def both(where):
    try_numbers(where)
    in_child(where)
async def coroutine():
    both("coroutine")
signal.signal(signal.SIGUSR1, handler)
both("main")
for where, target in (("thread", lambda: both("thread")), ("loop", lambda: asyncio.run(coroutine()))):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
asyncio.run(coroutine())
asyncio.run(asyncio.to_thread(both, "OS thread"))
"""


def test_number_of_a_thread_that_is_a_tasklet_is_understood_as_its_os_threads():
    """The system takes it for a pointer."""
    places = ("main", "thread", "coroutine", "coroutine", "OS thread")
    lines = [f"{prefix}{place} [True, True]" for place in places for prefix in ("", "child of ")]
    assert check(NUMBERS).splitlines() == [*lines, "to the end"]


def test_threads_start_where_their_class_is_replaced_by_a_function():
    program = """
import threading
from syncless.patches import patch_all
patch_all()
made, class_ = [], threading.Thread
threading.Thread = lambda *args, **kwargs: made.append(1) or class_(*args, **kwargs)
thread = threading.Thread(target=made.append, args=(2,))
thread.start()
thread.join()
print(made)
"""
    assert run_python(program) == "[1, 2]\n"


@pytest.mark.parametrize("target", ["abs", "ctypes.CDLL(None).usleep"], ids=["a tasklet", "an OS thread"])
def test_start_of_a_thread_is_not_cut(target):
    """Who is killed while a thread begins knows the thread: a library that has given it something to do keeps
    its books. What is thrown is raised at the next wait. grpcio starts such a thread in each channel, and the
    call that it is for would have no owner."""
    run_python(f"""
import ctypes, threading
from syncless.patches import patch_all
patch_all()
import syncless
started = []
def starts():
    thread = threading.Thread(target={target}, args=(1,))
    thread.start()
    started.append(thread)
    thread.join()
    syncless.sleep(0)
    started.append("not reached")
for _ in range(20):
    del started[:]
    starter = syncless.spawn(starts)
    syncless.sleep(0)  # it waits for the thread to begin, if that takes a moment
    starter.kill()
    assert len(started) == 1 and started[0].ident, started
""")


def test_ctrl_c_that_comes_while_a_thread_begins_is_raised_there():
    run_python("""
import _thread, signal, threading
from syncless.patches import patch_all
patch_all()
def stop(number, frame): raise KeyboardInterrupt
for handler in (signal.default_int_handler, stop):
    signal.signal(signal.SIGINT, handler)
    thread = threading.Thread(target=_thread.interrupt_main)
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        thread.join()
    else:
        raise AssertionError("not raised")
""")
