"""Tasklets: life, result, failure, killing, joining, callbacks, context, what they wait for."""

import contextvars
import sys
import time
import traceback
import weakref

import pytest

import syncless
from syncless import Channel, Event, Tasklet, TaskletExit, TaskletKilled, join_all, sleep, spawn, wait
from tests.kernel import needs_short_waits
from tests.programs import run_unchecked

pytestmark = pytest.mark.virtual_time


def test_runs_only_when_the_spawner_waits():
    seen = []
    tasklet = spawn(seen.append, 1)
    assert seen == [] and tasklet.status == "new"
    sleep(0)
    assert seen == [1] and tasklet.status == "ended"


def test_result_and_arguments():
    assert spawn(lambda a, *, b: (a, b), 1, b=2).result() == (1, 2)


def test_order_of_spawning_is_the_order_of_running():
    seen = []
    join_all([spawn(seen.append, number) for number in range(100)])
    assert seen == list(range(100))


def test_an_exception_is_reported_and_ends_that_tasklet_only(reports):
    failing = spawn(lambda: 1 / 0)
    other = spawn(lambda: "fine")
    assert other.result() == "fine"
    assert isinstance(failing.exception(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        failing.result()
    assert reports == [(failing, failing.exception())]


def test_the_report_has_the_traceback(capfd, reports):
    def inner():
        raise LookupError("needle")

    others = syncless.set_error_handler(None)
    spawn(inner).join()
    syncless.set_error_handler(others)
    err = capfd.readouterr().err
    assert (
        "Traceback" in err
        and "in inner" in err
        and "LookupError: needle" in err
        and "inner" in err.splitlines()[0]
    )


def test_failing_error_handler_harms_no_tasklet():
    def handler(where, error):
        raise RuntimeError("handler")

    previous = syncless.set_error_handler(handler)
    try:
        spawn(lambda: 1 / 0).join()
    finally:
        assert syncless.set_error_handler(previous) is handler


def test_only_callables_can_be_spawned():
    with pytest.raises(TypeError, match="needs a function"):
        spawn(3)


def test_join_with_timeout():
    tasklet = spawn(sleep, 0.05)
    assert tasklet.join(0.001) is False
    assert tasklet.join(5) is True
    assert tasklet.join(0) is True
    with pytest.raises(TimeoutError, match="has not ended"):
        never = spawn(Event().wait)
        try:
            never.result(0.001)
        finally:
            never.kill()


def test_a_tasklet_cannot_join_itself(reports):
    with pytest.raises(RuntimeError, match="join itself"):
        spawn(lambda: syncless.current().join()).result()


def test_kill_runs_finally_and_is_quiet(reports):
    seen = []

    def work():
        try:
            sleep(60)
        finally:
            seen.append("finally")

    tasklet = spawn(work)
    sleep(0)
    assert tasklet.kill() is True
    assert seen == ["finally"] and reports == []
    assert isinstance(tasklet.exception(), TaskletExit)
    with pytest.raises(TaskletKilled):
        tasklet.result()
    assert tasklet.kill() is True


def test_kill_before_the_start_means_it_never_runs():
    seen = []
    tasklet = spawn(seen.append, 1)
    tasklet.kill()
    sleep(0)
    assert seen == [] and tasklet.done()


def test_kill_with_another_exception(reports):
    tasklet = spawn(sleep, 60)
    sleep(0)
    tasklet.kill(KeyError("why"))
    assert isinstance(tasklet.exception(), KeyError) and len(reports) == 1
    with pytest.raises(TypeError, match="needs an exception"):
        spawn(sleep, 0).kill(5)
    sleep(0)


def test_kill_without_waiting_and_survivors():
    def stubborn():
        try:
            sleep(60)
        except TaskletExit:
            sleep(0.02)
            return "survived"

    tasklet = spawn(stubborn)
    sleep(0)
    assert tasklet.kill(block=False) is False
    assert tasklet.result() == "survived"


def test_killing_oneself_raises_at_once():
    seen = []

    def suicide():
        try:
            syncless.current().kill()
        finally:
            seen.append(1)
        seen.append(2)

    spawn(suicide).join()
    assert seen == [1]


def test_done_callbacks(reports):
    seen = []
    tasklet = spawn(lambda: 7)
    tasklet.add_done_callback(seen.append)
    tasklet.add_done_callback(lambda t: 1 / 0)
    removed = seen.clear
    tasklet.add_done_callback(removed)
    assert tasklet.remove_done_callback(removed) == 1
    tasklet.join()
    tasklet.add_done_callback(seen.append)
    assert seen == [tasklet, tasklet]
    assert [type(error) for _, error in reports] == [ZeroDivisionError]


def test_a_callback_cannot_block(reports):
    tasklet = spawn(lambda: None)
    tasklet.add_done_callback(lambda t: sleep(1))
    tasklet.join()
    assert "cannot wait" in str(reports[0][1])


def test_names_and_what_it_waits_for():
    event = Event()
    tasklet = spawn(event.wait)
    assert "wait" in tasklet.name and tasklet.waiting_for is None
    tasklet.name = "waiter"
    sleep(0.01)
    assert tasklet.status == "waiting" and tasklet.waiting_for == "event" and tasklet.waiting_object is event
    assert 0.005 < tasklet.waiting_seconds < 5
    assert repr(tasklet) == f"<{type(tasklet).__name__} waiter: waiting for event>"
    assert tasklet in syncless.tasklets()
    event.set()
    tasklet.join()
    assert tasklet.waiting_for is None and tasklet not in syncless.tasklets()


def test_context_is_a_copy_of_the_spawners():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)

    def work():
        seen = [variable.get()]
        variable.set(2)
        sleep(0)
        seen.append(variable.get())
        return seen

    tasklets = [spawn(work) for _ in range(3)]
    variable.set(5)
    assert [tasklet.result() for tasklet in tasklets] == [[1, 2]] * 3
    assert variable.get() == 5


def test_sleep_checks_its_argument():
    with pytest.raises(ValueError, match="non-negative"):
        sleep(-1)
    with pytest.raises(ValueError, match="NaN"):
        sleep(float("nan"))
    with pytest.raises(TypeError):
        sleep("1")


def test_sleepers_wake_in_the_order_of_their_deadlines():
    seen = []
    delays = [0.03, 0.01, 0.02, 0.01]

    def work(number, delay):
        sleep(delay)
        seen.append((delay, number))

    join_all([spawn(work, number, delay) for number, delay in enumerate(delays)])
    assert seen == sorted(seen)


@needs_short_waits
def test_sleep_is_as_long_as_asked():
    for seconds in (0.0001, 0.001, 0.01, 86400):
        started = time.monotonic()
        sleep(seconds)
        assert time.monotonic() - started == pytest.approx(seconds, abs=1e-9)


def test_wait_for_some_and_join_all(reports):
    event = Event()
    slow, fast = spawn(event.wait), spawn(lambda: 1)
    assert wait([slow, fast], count=1) == [fast]
    assert wait([slow, event], timeout=0.001) == []
    assert wait([]) == []
    with pytest.raises(ValueError, match="count"):
        wait([fast], count=0)
    event.set()
    assert wait([slow, event, fast]) == [event, fast, slow]
    failing = spawn(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        join_all([failing, spawn(lambda: 2)], raise_error=True)
    assert join_all([], raise_error=True) == []
    sleep(0)


def test_an_ended_tasklet_is_freed():
    class Payload:
        pass

    payload = Payload()
    gone = weakref.ref(payload)
    tasklet = spawn(lambda p: sleep(0), payload)
    del payload
    tasklet.join()
    assert gone() is None


def test_deep_recursion_of_the_spawner_does_not_shorten_that_of_the_spawned():
    if sys.version_info < (3, 11):
        pytest.skip("before 3.11 Python frames use the C stack, whose depth a greenlet inherits")
    free = sys.getrecursionlimit() - 150

    def descend(levels):
        return 0 if levels == 0 else 1 + descend(levels - 1)

    def at_depth(levels):
        return spawn(descend, free).result() if levels == 0 else at_depth(levels - 1)

    assert at_depth(free // 2) == free


def test_many_tasklets():
    channel = Channel()
    tasklets = [spawn(channel.receive) for _ in range(20000)]
    sleep(0)
    assert channel.balance == -20000
    for number in range(20000):
        channel.send(number)
    assert sum(tasklet.result() for tasklet in tasklets) == sum(range(20000))


def test_a_tasklet_spawned_in_a_chain_does_not_deepen_the_stack():
    seen = []

    def link(left):
        seen.append(left)
        if left:
            spawn(link, left - 1)

    spawn(link, 20000)
    while len(seen) <= 20000:
        sleep(0)
    assert seen[-1] == 0


def test_exceptions_being_handled_do_not_leak_between_tasklets():
    def handler():
        try:
            raise KeyError("mine")
        except KeyError:
            sleep(0)
            return sys.exc_info()[0]

    def bystander():
        seen = []
        for _ in range(3):
            seen.append(sys.exc_info()[0])
            sleep(0)
        return seen

    first, second = spawn(handler), spawn(bystander)
    assert first.result() is KeyError and second.result() == [None] * 3


def test_the_class_can_be_used_directly():
    assert isinstance(spawn(int), Tasklet)
    assert Tasklet(int, "12").result() == 12


@pytest.mark.parametrize(("raised", "code"), [("KeyboardInterrupt", 130), ("SystemExit(3)", 3)])
def test_exit_and_interrupt_reach_the_main_tasklet(raised, code):
    program = f"import syncless\ndef work():\n    raise {raised}\nsyncless.spawn(work)\nsyncless.sleep(30)\n"
    done = run_unchecked(program)
    assert done.returncode in (code, -2 if code == 130 else code)


def test_the_process_ends_with_its_main_tasklet():
    program = (
        "import syncless\n"
        "for i in range(5): syncless.spawn(syncless.sleep, 100)\n"
        "syncless.sleep(0.01)\nprint('end')"
    )
    done = run_unchecked(program, "-X", "dev")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_park_and_wake():
    def work():
        return syncless.park("a signal"), syncless.park(timeout=0.001)

    tasklet = spawn(work)
    assert syncless.wake(tasklet, 1) is False
    sleep(0)
    assert tasklet.waiting_object == "a signal"
    assert syncless.wake(tasklet, "value") is True and syncless.wake(tasklet) is False
    assert tasklet.result() == ((True, "value"), (False, None))


def test_names_and_reasons_may_be_of_subclasses_of_str():
    class Text(str):
        pass

    tasklet = spawn(syncless.park, Text("a signal"))
    tasklet.name = Text("a name")
    sleep(0)
    assert tasklet.name == "a name" and tasklet.waiting_object == "a signal"
    assert syncless.wake(tasklet) is True and tasklet.result() == (True, None)
    for wrong in (lambda: syncless.park(5), lambda: setattr(tasklet, "name", 5)):
        with pytest.raises(TypeError):
            wrong()


def test_wake_does_not_break_other_waits():
    lock = syncless.Lock()
    lock.acquire()
    tasklet = spawn(lock.acquire)
    sleep(0)
    assert syncless.wake(tasklet) is False and tasklet.status == "waiting"
    lock.release()
    assert tasklet.result() is True


def test_a_timeout_needs_a_tasklet(reports):
    tasklet = spawn(lambda: None)
    tasklet.add_done_callback(lambda t: syncless.Timeout(1).start())
    tasklet.join()
    assert "needs a tasklet" in str(reports[0][1])


def test_a_traceback_begins_in_the_function(reports):
    def fails():
        raise KeyError("no")

    failing = spawn(fails)
    failing.join()
    [(where, error)] = reports
    assert where is failing and [each.name for each in traceback.extract_tb(error.__traceback__)] == ["fails"]


# -- waits that nobody can end ------------------------------------------------------------------------------

UNREACHABLE = """
import gc, os, sys, threading, weakref
import syncless
log = []
lock = threading.Lock()

class Thing:
    def __del__(self):
        log.append("thing")

def waits(event, thing):
    try:
        with lock:
            event.wait()        # which only this frame refers to
    finally:
        log.append("finally")

def leave_alone():
    thing = Thing()
    thing.itself = thing        # a cycle, with the frame of the tasklet in it
    thing.tasklet = tasklet = syncless.spawn(waits, syncless.Event(), thing)
    syncless.sleep(0)
    return weakref.ref(tasklet)

left = leave_alone()
"""


def run_unreachable(program):
    done = run_unchecked(UNREACHABLE + program)
    assert done.returncode == 0 and done.stdout == "to the end\n" and not done.stderr, done


def test_tasklet_that_nobody_can_wake_stays_with_its_locks_until_it_is_killed():
    """Since Python 3.15 the collector of garbage looks into suspended greenlets, but not at who owns them."""
    run_unreachable("""
for _ in range(3):
    gc.collect()
    syncless.sleep(0)
assert log == [] and lock.locked()
(tasklet,) = [each for each in syncless.tasklets() if each is left()]
assert tasklet.status == "waiting", tasklet.status
tasklet.kill()
assert log == ["finally"] and not lock.locked()
del tasklet
gc.collect()
assert log == ["finally", "thing"] and left() is None
print("to the end")
""")


def test_child_of_a_fork_does_not_collect_the_tasklets_of_its_parent():
    """Their `finally` blocks belong to the parent."""
    run_unreachable("""
child = os.fork()
if not child:
    for _ in range(3):
        gc.collect()
        syncless.sleep(0)
    os._exit(bool(log) or not lock.locked())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
left().kill()
assert log == ["finally"]
print("to the end")
""")
