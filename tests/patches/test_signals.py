"""Signals under the patch: a handler's exception goes to the main tasklet, wherever the OS thread was;
waiting for signals parks."""

import sys

import pytest

from tests import needs
from tests.programs import check, run_python


def test_ctrl_c_while_a_thread_computes_stops_main():
    """The thread would print a KeyboardInterrupt and end, and the program would go on."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import os, signal, threading, time
seen = []
def compute():
    for number in range(200):
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))
        time.sleep(0)
    seen.append("computed")
thread = threading.Thread(target=compute)
thread.start()
try:
    time.sleep(10)
except KeyboardInterrupt:
    seen.append("main")
thread.join()
print(seen)
""")
        == "['main', 'computed']\n"
    )


def test_a_second_ctrl_c_stops_the_thread_that_holds_all():
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import os, signal, threading
seen = []
def hog():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    except KeyboardInterrupt:
        seen.append("hog")
thread = threading.Thread(target=hog)
try:
    thread.start()
    thread.join()
except KeyboardInterrupt:
    seen.append("main")
thread.join()
print(seen)
""")
        == "['hog', 'main']\n"
    )


def test_handlers_are_shown_as_they_were_set():
    assert (
        run_python("""
import signal
def early(number, frame): pass
signal.signal(signal.SIGUSR1, early)
from syncless.patches import patch_all, unpatch
patch_all()
def late(number, frame): pass
assert signal.getsignal(signal.SIGUSR1) is early
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.signal(signal.SIGUSR1, late) is early and signal.getsignal(signal.SIGUSR1) is late
assert signal.signal(signal.SIGUSR2, signal.SIG_IGN) is signal.SIG_DFL
assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
unpatch()
assert signal.getsignal(signal.SIGUSR1) is late and signal.signal(signal.SIGUSR1, signal.SIG_DFL) is late
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("shown")
""")
        == "shown\n"
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_programs_own_wakeup_descriptor(when):
    """It gets its bytes, and the loop goes on hearing signals."""
    assert (
        run_python(f"""
import os, signal, socket, time
left, right = socket.socketpair()
right.setblocking(False)
def take():
    assert signal.set_wakeup_fd(right.fileno()) == -1
from syncless.patches import patch_all
if {when == "after"}:
    patch_all(); take()
else:
    take(); patch_all()
import syncless
signal.signal(signal.SIGUSR1, lambda number, frame: None)
syncless.spawn(lambda: (syncless.sleep(0.02), os.kill(os.getpid(), signal.SIGUSR1)))
assert left.recv(10) == bytes([signal.SIGUSR1])
assert signal.set_wakeup_fd(-1) == right.fileno() and signal.set_wakeup_fd(-1) == -1
for wrong in (left, open(os.devnull)):
    try:
        signal.set_wakeup_fd(wrong.fileno())
    except ValueError as error:
        assert "non-blocking" in str(error)
    else:
        raise AssertionError
print("woken")
""")
        == "woken\n"
    )


def test_a_thread_blocks_signals_for_itself_only():
    """As multiprocessing's resource sharer does: its children must be killable all the same."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import signal, threading
seen = []
def block():
    assert signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, 40]) == set()
    assert signal.pthread_sigmask(signal.SIG_UNBLOCK, [40]) == {signal.SIGTERM, 40}
    assert signal.pthread_sigmask(signal.SIG_SETMASK, [signal.SIGUSR1]) == {signal.SIGTERM}
    try:
        signal.pthread_sigmask(77, [])
    except OSError as error:
        seen.append(error.errno)
thread = threading.Thread(target=block)
thread.start()
thread.join()
assert signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]) == set()
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR2}
print(seen)
""")
        == "[22]\n"
    )


def test_signals_are_heard_after_asyncio():
    """asyncio.run() in the main thread takes the wake-up descriptor for itself, and takes it away at its
    end."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import asyncio, os, signal, threading, time
async def nothing():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, lambda: None)
    await asyncio.sleep(0.01)
asyncio.run(nothing())
from syncless import Event
came = Event()
signal.signal(signal.SIGUSR1, lambda number, frame: came.set())
os.system(f"(sleep 0.2; kill -USR1 {os.getpid()}) &")
assert came.wait(3600)      # nothing else happens meanwhile
print("heard")
""")
        == "heard\n"
    )


@pytest.mark.parametrize("where", ["in a thread", "while all wait"])
def test_handler_may_wait_set_a_handler_and_raise(where):
    assert (
        run_python(f"""
from syncless.patches import patch_all
patch_all()
import os, signal, subprocess, sys, threading, time
seen = []
def handler(number, frame):
    seen.append("began")
    time.sleep(0.05)
    subprocess.run(["true"])
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    seen.append("waited")
    raise KeyError("handler's")
signal.signal(signal.SIGUSR1, handler)
try:
    if {where!r} == "in a thread":
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1)).start()  # main may wait here
    else:
        subprocess.Popen(["sh", "-c", f"sleep 0.2; kill -USR1 {{os.getpid()}}"])
    time.sleep(10)
except KeyError:
    seen.append("main")
print(seen, signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN)
""")
        == "['began', 'waited', 'main'] True\n"
    )


def test_handlers_are_set_in_the_main_thread_only():
    """A library that tries it elsewhere learns that it may not, and the program's handler stays."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import asyncio, os, signal, syncless, threading
def mine(number, frame): pass
signal.signal(signal.SIGUSR1, mine)
seen = []
def try_all():
    for call in (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), lambda: signal.set_wakeup_fd(-1)):
        try:
            call()
        except ValueError as error:
            seen.append(str(error))
    async def add():
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print)
    try:
        asyncio.run(add())
    except RuntimeError as error:
        seen.append("asyncio")
thread = threading.Thread(target=try_all)
thread.start()
thread.join()
syncless.spawn(try_all).join()
one = ["signal only works in main thread of the main interpreter",
       "set_wakeup_fd only works in main thread of the main interpreter", "asyncio"]
assert seen == one * 2, seen
assert signal.getsignal(signal.SIGUSR1) is mine and signal.signal(signal.SIGUSR1, signal.SIG_IGN) is mine
def fork():
    if (child := os.fork()) == 0:
        # this tasklet is the main thread of the child
        os._exit(5 if signal.signal(signal.SIGUSR1, mine) is signal.SIG_IGN else 1)
    seen.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
syncless.spawn(fork).join()
print(seen[-1])
""")
        == "5\n"
    )


@pytest.mark.parametrize("library", ["trio", "uvloop"])
def test_loops_of_others_run_in_threads(library):
    needs.module(library, "runs it in a thread")
    assert (
        run_python(f"""
from syncless.patches import patch_all
patch_all()
import {library}, asyncio, signal, syncless, threading
sleep = {"trio.sleep" if library == "trio" else "asyncio.sleep"}
def handler(number, frame): pass
signal.signal(signal.SIGINT, handler)
seen = []
async def work():
    await sleep(0.01)
    seen.append(1)
def run():
    {library}.run({"work" if library == "trio" else "work()"})
for _ in range(2):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    syncless.spawn(run).result()
run()
assert signal.getsignal(signal.SIGINT) is handler and signal.set_wakeup_fd(-1) == -1
print(len(seen))
""")
        == "5\n"
    )


@pytest.mark.parametrize("where", ["main", "thread", "tasklet"])
@pytest.mark.parametrize(
    "call", ["sigwait({wanted})", "sigwaitinfo({wanted}).si_signo", "sigtimedwait({wanted}, 30).si_signo"]
)
def test_signal_that_is_waited_for_does_not_end_the_process(where, call):
    """Unless the program blocks it, it would: the tasklet is not in the kernel while it waits."""
    call = call.format(wanted="[signal.SIGUSR1, signal.SIGKILL, signal.SIGTERM]")
    assert (
        run_python(f"""
from syncless.patches import patch_all
patch_all()
import os, signal, subprocess, sys, syncless, threading, time
syncless.run_in_thread(time.sleep, 0)   # an OS thread that blocks nothing
print(threading.active_count())
seen = []
def wait():
    for _ in range(3):
        seen.append(signal.{call})
def send():
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
        before = len(seen)
        while not callable(signal.getsignal(number)) and not waits(number):
            time.sleep(0.001)
        os.kill(os.getpid(), number)
        while len(seen) == before:
            time.sleep(0.001)
from syncless.patches import signals
def waits(number):
    return isinstance(signals._getsignal(number), signals.Awaited)
sender = threading.Thread(target=send)
sender.start()
if {where == "main"}:
    wait()
elif {where == "thread"}:
    waiter = threading.Thread(target=wait)
    waiter.start()
    waiter.join()
else:
    syncless.spawn(wait).result()
sender.join()
assert seen == [signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1], seen
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
""")
        == "1\n"
    )


def test_children_started_while_a_signal_is_waited_for_do_not_block_it():
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import os, signal, subprocess, sys, syncless, threading
waiter = syncless.spawn(signal.sigwait, [signal.SIGTERM])
while "waiting" not in str(waiter):      # it may give way before that
    syncless.sleep(0)
assert signal.signal(signal.SIGTERM, print) is signal.SIG_DFL and signal.getsignal(signal.SIGTERM) is print
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
child.terminate()
assert child.wait() == -signal.SIGTERM
os.kill(os.getpid(), signal.SIGTERM)
assert waiter.result() == signal.SIGTERM and signal.getsignal(signal.SIGTERM) is print
assert signal.sigtimedwait([signal.SIGTERM], 0) is None
assert signal.sigtimedwait([signal.SIGTERM], 0.01) is None
print("ended")
""")
        == "ended\n"
    )


def test_two_tasklets_wait_for_one_signal():
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import os, signal, syncless
waiters = [syncless.spawn(signal.sigwait, [signal.SIGUSR1]) for _ in range(3)]
syncless.sleep(0.01)
waiters[1].kill()
for count in (1, 2):
    os.kill(os.getpid(), signal.SIGUSR1)
    while sum(waiter.done() for waiter in waiters) < 1 + count:
        syncless.sleep(0.001)
assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
print("each")
""")
        == "each\n"
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has signalfd")
@pytest.mark.parametrize("to", ["os.kill(os.getpid(), {})", "signal.pthread_kill(threading.get_ident(), {})"])
def test_blocked_signal_is_waited_for_by_a_descriptor(to):
    """Nothing is asked again and again, the sender is known, and the descriptor is closed afterwards."""
    assert (
        run_python(f"""
import os, signal, threading
main = threading.get_ident()
from syncless.patches import patch_all
patch_all()
import syncless
from syncless.patches import signals
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
asked, original = [], signals._sigtimedwait
signals._sigtimedwait = lambda *args: asked.append(args) or original(*args)
descriptors = len(os.listdir("/proc/self/fd"))
waiters = [syncless.spawn(signal.sigwaitinfo, [signal.SIGUSR1]) for _ in range(2)]
syncless.sleep(0.1)
assert len(asked) <= 4, asked
for left in (2, 1):
    {to.format("signal.SIGUSR1").replace("threading.get_ident()", "main")}
    while sum(not waiter.done() for waiter in waiters) == left:
        syncless.sleep(0.001)
for waiter in waiters:
    assert waiter.result().si_signo == signal.SIGUSR1 and waiter.result().si_pid == os.getpid()
assert signal.sigtimedwait([signal.SIGUSR2], 0.01) is None
killed = syncless.spawn(signal.sigwait, [signal.SIGUSR2])
syncless.sleep(0)
killed.kill()
assert len(os.listdir("/proc/self/fd")) == descriptors
print("told")
""")
        == "told\n"
    )


def test_handler_that_comes_in_a_switch_gets_a_tasklet_of_its_own():
    """It waits, and nothing may wait between the tasklet that stops and the one that goes on."""
    check("""
        import os, signal, time
        from syncless.patches import patch_all
        patch_all()
        import syncless

        def handler(number, frame):
            time.sleep(0.001)
            handled.append(number)

        def hook(leaving):
            os.kill(os.getpid(), signal.SIGUSR1)
            sum(range(3))  # a handler is called between two bytecodes

        def work():
            syncless.current().set_switch_hook(hook)
            for _ in range(50):
                syncless.sleep(0)
                turns.append(1)

        handled, turns = [], []
        signal.signal(signal.SIGUSR1, handler)
        both = [syncless.spawn(work) for _ in range(2)]
        for tasklet in both:
            tasklet.join(10)
        assert len(turns) == 100
        while not handled:
            time.sleep(0.001)
    """)
