"""Code that cannot park, on the loop itself or in a step that must not wait, needs a lock that a parked
tasklet of the same thread holds: it gets an error that names both, and the thread never stands still."""

import textwrap

import pytest

from tests.programs import SLOW_IMPORT, check

PRELUDE = """
import gc, importlib, logging, os, queue, signal, sys, threading, weakref
import syncless
from syncless import sleep, spawn
from syncless._core.current import directly

told = []
syncless.set_error_handler(lambda where, error: told.append(error))
unraisable = []
sys.unraisablehook = lambda found: unraisable.append(found.exc_value)

def held(lock):
    "A tasklet holds the lock and is parked."
    def holds_it():
        with lock:
            inside.set()
            go.wait()
    inside = syncless.Event()
    holder = spawn(holds_it)
    inside.wait()
    return holder

def on_the_loop(function):
    "Calls it on the loop itself."
    called = []
    def call(_):
        assert syncless.current() is None
        called.append(1)
        function()
    spawn(int).add_done_callback(call)
    while not called:
        sleep(0)

def must_tell(errors, *names):
    assert len(errors) == 1 and type(errors[0]) is RuntimeError, errors
    assert all(name in str(errors[0]) for name in names), errors[0]

def others_run():
    sleep(0.001)
    assert spawn(int).result() == 0
"""


def check_waits(program):
    check(SLOW_IMPORT + PRELUDE + textwrap.dedent(program), timeout=60)


@pytest.mark.parametrize("where", ["on_the_loop", "directly"])
@pytest.mark.parametrize("acquire", ["acquire()", "acquire(timeout=100)", "__enter__()"])
@pytest.mark.parametrize("kind", ["Lock", "RLock", "Condition"])
def test_lock_of_a_parked_tasklet_is_refused_by_name(where, acquire, kind):
    check_waits(f"""
    lock = threading.{kind}()
    holder = held(lock)
    if "{where}" == "directly":
        try:
            directly(lambda: lock.{acquire})
        except RuntimeError as error:
            told.append(error)
    else:
        on_the_loop(lambda: lock.{acquire})
    must_tell(told, "holds_it", "waiting for event", "<string>")
    assert ("itself" if "{where}" == "on_the_loop" else "main") in str(told[0])
    others_run()
    go.set()
    holder.join()
    with lock:
        pass
    """)


@pytest.mark.parametrize("kind", ["Semaphore", "BoundedSemaphore", "Barrier(2)", "Event"])
def test_wait_for_a_tasklet_is_refused_where_no_other_thread_could_end_it(kind):
    check_waits(f"""
    thing = threading.{kind}{"" if "(" in kind else "()"}
    if "Semaphore" in "{kind}":
        held(thing)
        wait = thing.acquire
    else:
        wait = thing.wait
    on_the_loop(wait)
    must_tell(told, "itself")
    others_run()
    """)


@pytest.mark.parametrize("get", ["queue.Queue().get", "queue.SimpleQueue().get", "queue.Queue(1).join"])
def test_queue_is_refused_where_no_other_thread_could_fill_it(get):
    check_waits(f"""
    get = {get}
    if get.__name__ == "join":
        get.__self__.put(1)
    on_the_loop(get)
    must_tell(told, "itself")
    others_run()
    """)


def test_lock_that_an_os_thread_holds_is_waited_for():
    check_waits("""
    from syncless._core.calls.threads import run_in_thread
    lock, (held, holds), (wanted, wants) = threading.Lock(), os.pipe(), os.pipe()
    def hold():
        with lock:
            os.write(holds, b"x")
            os.read(wanted, 1)
    def waits():
        os.write(wants, b"x")
        got.append(lock.acquire())
    got = []
    thread = spawn(run_in_thread, hold)
    assert os.read(held, 1)
    on_the_loop(waits)
    thread.join()
    assert got == [True] and not told, (got, told)
    lock.release()
    """)


@pytest.mark.slow
def test_lock_that_nobody_is_known_to_hold_is_given_up_after_some_seconds():
    """Perhaps the other thread would release it."""
    check_waits("""
    from syncless._core.calls.threads import run_in_thread
    reading, writing = os.pipe()
    thread = spawn(run_in_thread, os.read, reading, 1)
    sleep(0.001)
    for wait in threading.Event().wait, queue.SimpleQueue().get, threading.Semaphore(0).acquire:
        on_the_loop(wait)
        must_tell([told.pop()], "itself", "may have to release it")
    others_run()
    os.write(writing, b"x")
    thread.join()
    """)


FINALISER = """
lock = threading.Lock()
holder = held(lock)
class Needs:
    def __del__(self):
        with lock:
            pass
"""


def test_finaliser_on_the_loop():
    check_waits(
        FINALISER
        + """
has = [Needs()]
on_the_loop(has.clear)
must_tell(unraisable, "holds_it", "__del__")
others_run()
go.set()
holder.join()
assert not told
"""
    )


def test_finaliser_in_a_collection_on_the_loop():
    check_waits(
        FINALISER
        + """
gc.disable()
one = Needs()
one.itself = one
del one
on_the_loop(gc.collect)
must_tell(unraisable, "holds_it", "__del__")
others_run()
"""
    )


def test_callback_of_the_collector_on_the_loop():
    check_waits(
        FINALISER
        + """
def called(phase, info):
    if phase == "stop":
        with lock:
            pass
gc.disable()
gc.callbacks.append(called)
on_the_loop(gc.collect)
gc.callbacks.clear()
must_tell(unraisable, "holds_it", "called")
others_run()
"""
    )


def test_callback_of_a_weak_reference_on_the_loop():
    check_waits(
        FINALISER
        + """
class Plain:
    pass
def called(ref):
    lock.acquire()
has = [Plain()]
ref = weakref.ref(has[0], called)
on_the_loop(has.clear)
must_tell(unraisable, "holds_it", "called")
others_run()
"""
    )


def test_finaliser_of_what_a_tasklet_was_given_waits_for_its_turn():
    check_waits(
        FINALISER
        + """
given = spawn(lambda needs: None, Needs())
others_run()
assert not given.done()
go.set()
assert given.result() is None and not unraisable and not told
"""
    )


def test_handler_of_a_signal_waits_for_its_turn_while_all_tasklets_wait():
    check_waits(
        FINALISER
        + """
handled = syncless.Event()
def handler(number, frame):
    with lock:
        handled.set()
signal.signal(signal.SIGUSR1, handler)
def release():                  # main itself is in the handler
    others_run()
    assert not handled.is_set()
    go.set()
releaser = spawn(release)
spawn(signal.raise_signal, signal.SIGUSR1)
handled.wait()
releaser.result()
assert not unraisable and not told
"""
    )


def test_logging_on_the_loop_tells_of_a_handlers_lock():
    check_waits("""
class Slow(logging.Handler):
    def emit(self, record):
        entered.set()
        go.wait()
        done.append(record.msg)
entered, done = syncless.Event(), []
log = logging.getLogger("x")
log.addHandler(Slow())
logs = spawn(log.error, "first")
entered.wait()
on_the_loop(lambda: log.error("second"))
must_tell(told, "error-", "event")
others_run()
go.set()
logs.join()
assert done == ["first"]
""")


IMPORTING = """
slow_import("slow", made=True)
def imports():
    import slow
    return slow.value
importer = spawn(imports)
parked.wait()
"""


@pytest.mark.parametrize("others", [0, 2])
def test_import_on_the_loop_of_a_module_that_a_tasklet_is_importing(others):
    check_waits(
        IMPORTING
        + f"""
waiting = [spawn(imports) for _ in range({others})]
sleep(0.001)
on_the_loop(imports)
must_tell(told, "'slow'", "imports-")
others_run()
go.set()
assert importer.result() == 1 and [one.result() for one in waiting] == [1] * {others}
on_the_loop(imports)
assert len(told) == 1
"""
    )


def test_import_in_a_finaliser_on_the_loop():
    check_waits(
        IMPORTING
        + """
class Imports:
    def __del__(self):
        import slow
has = [Imports()]
on_the_loop(has.clear)
must_tell(unraisable, "'slow'", "__del__")
others_run()
go.set()
assert importer.result() == 1
"""
    )


def test_rlock_of_a_step_that_must_not_wait_is_its_tasklets():
    check_waits("""
    lock, other = threading.RLock(), threading.Lock()
    def steps():
        with lock:
            directly(lock.acquire)
            lock.release()
            directly(other.acquire)
    step = spawn(steps)
    step.join()
    on_the_loop(lambda: other.acquire(timeout=0.001))
    assert not lock.acquire(False) is None and not told
    """)
