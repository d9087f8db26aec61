"""stackless.tasklet, schedule and run, as the Stackless documentation tells them."""

import contextvars
import pickle
import sys
import threading
import time

import pytest

import syncless
import syncless.stackless as stackless
from syncless.io import socket
from tests.programs import run_unchecked

pytestmark = pytest.mark.virtual_time


def noting(log):
    """A function that notes its argument and its turns."""

    def note(name, turns=1):
        for turn in range(turns):
            log.append(f"{name}{turn}" if turns > 1 else name)
            if turn < turns - 1:
                stackless.schedule()

    return note


def test_tasklets_take_turns_in_order():
    log = []
    for name in "abc":
        stackless.tasklet(noting(log))(name, 2)
    assert stackless.runcount == 4 and stackless.getruncount() == 4
    stackless.run()
    assert log == ["a0", "b0", "c0", "a1", "b1", "c1"] and stackless.runcount == 1


def test_life_of_a_tasklet():
    log = []
    tasklet = stackless.tasklet()
    assert (tasklet.alive, tasklet.paused, tasklet.scheduled, tasklet.blocked) == (False, False, False, False)
    with pytest.raises(RuntimeError, match="unbound"):
        tasklet.run()
    with pytest.raises(RuntimeError):
        tasklet()
    tasklet.bind(noting(log))
    assert not tasklet.alive
    tasklet.bind(None, ("x",))
    assert (tasklet.alive, tasklet.paused, tasklet.scheduled) == (True, True, False)
    with pytest.raises(RuntimeError):
        tasklet("y")
    assert tasklet.insert() is tasklet and (tasklet.paused, tasklet.scheduled) == (False, True)
    tasklet.insert()  # it is there already
    stackless.run()
    assert log == ["x"] and not tasklet.alive and not tasklet.scheduled
    with pytest.raises(RuntimeError, match="dead"):
        tasklet.insert()
    tasklet.bind(noting(log), ("again",), {"turns": 1}).insert()
    stackless.run()
    assert log == ["x", "again"]
    for wrong in (
        lambda: stackless.tasklet(5),
        lambda: stackless.tasklet(None, ()),
        lambda: stackless.tasklet().bind(None, ()),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_remove_and_insert():
    log = []
    one, _ = (stackless.tasklet(noting(log))(name, 2) for name in "ab")
    assert one.remove() is one and one.paused and one.alive and not one.scheduled
    stackless.run()
    assert log == ["b0", "b1"]
    one.insert()
    stackless.schedule()
    one.remove()
    stackless.run()
    assert log[2:] == ["a0"] and one.paused
    one.insert()
    stackless.run()
    assert log[3:] == ["a1"] and not one.alive


def test_run_rotates_the_queue_and_switch_pauses_its_caller():
    log = []
    tasklets = [stackless.tasklet(noting(log))(name) for name in "abc"]
    tasklets[1].run()
    assert log == ["b", "c"]
    stackless.run()
    assert log == ["b", "c", "a"]
    log.clear()
    paused = stackless.tasklet(noting(log)).bind(None, ("p",))
    stackless.tasklet(noting(log))("q")
    paused.run()
    assert log == ["p"]  # it was outside: its caller comes next
    stackless.run()
    assert log == ["p", "q"]
    main = stackless.getcurrent()
    other = stackless.tasklet(lambda: (log.append(main.paused), main.insert())).bind(None, ())
    other.switch()
    assert log[2:] == [True] and not other.alive


def test_schedule_returns_its_argument():
    assert (
        stackless.schedule() is stackless.getcurrent()
        and stackless.schedule(5) == 5
        and stackless.schedule(retval=None) is None
    )
    got = []
    tasklet = stackless.tasklet(lambda: got.append(stackless.schedule_remove(1)))()
    stackless.run()
    assert tasklet.paused and tasklet.tempval == 1
    tasklet.tempval = "set by another"
    tasklet.insert()
    stackless.run()
    assert got == ["set by another"] and tasklet.tempval is None
    tasklet = stackless.tasklet(lambda: "returned")()
    stackless.run()
    assert not tasklet.alive and tasklet.tempval == "returned"


def test_run_and_switch_return_the_tempval_of_their_caller():
    main = stackless.main
    for leave in (stackless.tasklet.run, stackless.tasklet.switch):
        other = stackless.tasklet(lambda: (setattr(main, "tempval", "left"), main.insert())).bind(None, ())
        assert leave(other) == "left" and main.tempval is None


def test_next_and_prev():
    one, two = (stackless.tasklet(lambda: None)() for _ in range(2))
    main = stackless.getmain()
    assert main.next is one and one.next is two and two.next is main and main.prev is two and one.prev is main
    stackless.run()
    assert one.next is None and main.next is main


def test_uncaught_exceptions_go_to_the_innermost_run():
    log = []

    def fail():
        raise ValueError("mine")

    def inner():
        stackless.tasklet(fail)()
        try:
            stackless.run()
        except ValueError as error:
            log.append(f"inner {error}")

    stackless.tasklet(inner)()
    stackless.run()
    failed = stackless.tasklet(fail)()
    later = stackless.tasklet(log.append)("later")
    with pytest.raises(ValueError, match="mine"):
        stackless.run()
    assert log == ["inner mine"] and not failed.alive and later.scheduled
    stackless.run()
    assert log == ["inner mine", "later"]
    stackless.tasklet(fail)()
    with pytest.raises(ValueError, match="mine"):
        stackless.schedule()


def test_error_handler():
    seen = []
    assert stackless.set_error_handler(lambda *error: seen.append(error)) is None
    try:
        stackless.tasklet(lambda: 1 / 0)()
        stackless.run()
    finally:
        stackless.set_error_handler(None)
    assert [kind for kind, _, _ in seen] == [ZeroDivisionError] and seen[0][2] is not None
    with pytest.raises(TypeError):
        stackless.set_error_handler(5)


@pytest.mark.parametrize("pending", [False, True])
def test_kill(pending):
    log = []

    def body():
        try:
            stackless.schedule_remove()
        except stackless.TaskletExit:
            log.append("killed")
            raise
        finally:
            log.append("finally")

    tasklet = stackless.tasklet(body)()
    stackless.run()
    assert tasklet.paused
    tasklet.kill(pending=pending)
    assert log == ([] if pending else ["killed", "finally"]) and tasklet.alive == pending
    stackless.run()
    assert log == ["killed", "finally"] and not tasklet.alive
    tasklet.kill()
    never = stackless.tasklet(log.append)("never")
    never.kill()
    stackless.run()
    assert len(log) == 2 and not never.alive and issubclass(stackless.TaskletExit, SystemExit)
    with pytest.raises(stackless.TaskletExit):
        stackless.getcurrent().kill()


def test_tasklets_behind_a_killed_one_run_before_its_killer():
    log = []
    early, killed, _ = (stackless.tasklet(log.append)(name) for name in ("early", "killed", "late"))
    killed.kill()
    assert not killed.alive and log == ["late"] and early.scheduled
    paused = stackless.tasklet(log.append).bind(None, ("paused",))
    paused.kill()
    assert not paused.alive and log == ["late"] and early.scheduled
    stackless.run()
    assert log == ["late", "early"]


def test_throw():
    log = []

    def body():
        try:
            stackless.schedule_remove()
        except ValueError as error:
            log.append(error.args)

    for throw in (
        lambda each: each.raise_exception(ValueError, 1, 2),
        lambda each: each.throw(ValueError, (1, 2)),
        lambda each: each.throw(ValueError(1, 2)),
        lambda each: each.throw(ValueError, ValueError(1, 2), None),
    ):
        tasklet = stackless.tasklet(body)()
        stackless.run()
        throw(tasklet)
        assert log.pop() == (1, 2) and not tasklet.alive
        with pytest.raises(RuntimeError, match="dead"):
            throw(tasklet)
        tasklet.throw(stackless.TaskletExit)
    for wrong in (
        lambda: tasklet.throw(5),
        lambda: tasklet.throw(ValueError(1), 2),
        lambda: tasklet.raise_exception("x"),
    ):
        with pytest.raises(TypeError):
            wrong()
    new = stackless.tasklet(body)()
    with pytest.raises(KeyError):
        new.throw(KeyError)
    assert not new.alive


def test_io_and_timers_belong_to_run():
    """A tasklet that reads a socket parks in the loop, however slow the turns are, and run() goes on until it
    has its answer."""
    left, right = socket.socketpair()
    got = []
    reader = stackless.tasklet(
        lambda: (time.sleep(0.001), got.append(left.recv(10)))
    )()  # the thread sleeps: a poll is due
    stackless.tasklet(lambda: (syncless.sleep(0.05), right.send(b"x")))()
    stackless.schedule()
    assert reader.blocked and reader.scheduled
    stackless.run()
    assert got == [b"x"]
    left.close()
    right.close()


def test_spawned_tasklets_are_the_same_kind():
    spawned = syncless.spawn(lambda: stackless.getcurrent())
    assert isinstance(spawned, stackless.tasklet) and isinstance(stackless.tasklet(), syncless.Tasklet)
    assert spawned.result() is spawned and stackless.getcurrent() is syncless.current() is stackless.getmain()
    channel = stackless.channel()
    waits = syncless.spawn(channel.receive)
    stackless.schedule()
    assert waits.blocked and channel.balance == -1
    channel.send("hello")
    assert waits.result() == "hello"
    waits = syncless.spawn(channel.receive)
    stackless.schedule()
    assert waits.kill() and channel.balance == 0


@pytest.mark.virtual_time(False)  # what it waits for is a process, which is on the system's clock
def test_the_main_tasklet_is_still_the_one_for_timeouts_and_signals():
    """It is replaced at the first call, here within a Timeout that was started before."""
    program = """
import signal, time
import syncless
from syncless.patches import patch_all
patch_all()
try:
    with syncless.Timeout(0.05):
        import syncless.stackless as stackless
        stackless.getcurrent()
        time.sleep(5)
except syncless.Timeout:
    print("timed out")
def handler(*_): raise KeyError("from the handler")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    time.sleep(5)
except KeyError:
    print("interrupted")
"""
    done = run_unchecked(program)
    assert done.stdout == "timed out\ninterrupted\n" and not done.stderr, done.stderr


def test_context_variables():
    variable = contextvars.ContextVar("variable", default=0)
    seen = []
    variable.set(1)
    one = stackless.tasklet(lambda: (seen.append(variable.get()), variable.set(2)))()
    stackless.run()
    assert seen == [1] and variable.get() == 1 and one.context_run(variable.get) == 1
    context = contextvars.copy_context()
    context.run(variable.set, 7)
    stackless.tasklet(lambda: seen.append(variable.get())).set_context(context)()
    stackless.run()
    assert seen == [1, 7]


def test_flags_and_traps():
    me = stackless.getcurrent()
    assert not me.atomic and not me.set_atomic(True) and me.atomic and me.set_atomic(False)
    with stackless.atomic():
        assert me.atomic
    assert not me.atomic and me.is_main and me.is_current and me.thread_id == threading.get_ident()
    assert stackless.switch_trap(1) == 0
    try:
        other = stackless.tasklet(lambda: None)()
        for switch in (
            stackless.schedule,
            stackless.run,
            other.run,
            other.switch,
            other.kill,
            stackless.channel().receive,
        ):
            with pytest.raises(RuntimeError, match="switch_trap"):
                switch()
    finally:
        assert stackless.switch_trap(-1) == 1
    stackless.run()
    assert stackless.enable_softswitch(True) is False


def test_features_that_greenlets_lack_are_refused():
    started = stackless.tasklet(stackless.schedule_remove)()
    stackless.run()
    assert not started.restorable and started.nesting_level == started.recursion_depth == 1
    with pytest.raises(TypeError, match="greenlet"):
        pickle.dumps(started)
    with pytest.raises(RuntimeError, match="current"):
        pickle.dumps(stackless.getcurrent())
    with pytest.raises(RuntimeError, match="C state"):
        started.bind_thread(threading.main_thread().ident)
    started.kill()


def add(number, other=0):
    return number + other


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tasklets_that_have_not_started_or_have_ended_can_be_pickled(protocol):
    def copy(one):
        return pickle.loads(pickle.dumps(one, protocol))

    scheduled = stackless.tasklet(add)(1, other=2)
    scheduled.set_atomic(True)
    scheduled.block_trap = True
    copied = copy(scheduled)
    assert copied.restorable and copied.paused and copied.atomic and copied.block_trap
    assert not copied.ignore_nesting
    copied.insert()
    stackless.run()
    assert scheduled.tempval == copied.tempval == 3
    ended = copy(scheduled)
    assert not ended.alive and ended.restorable and ended.tempval == 3
    bound = copy(stackless.tasklet(add))
    assert not bound.alive
    bound(4).run()
    assert bound.tempval == 4
    assert not copy(stackless.tasklet()).alive
    named = stackless.channel()
    named.preference = 1
    with_channel = copy(stackless.tasklet(add).bind(None, (named,)))
    assert isinstance(with_channel.__reduce__()[2][3][1][0], stackless.channel)
    with_channel.kill()


def test_schedule_callback():
    seen = []
    assert stackless.get_schedule_callback() is None
    tasklets = [stackless.tasklet(lambda: None)() for _ in range(2)]
    stackless.set_schedule_callback(lambda *pair: seen.append(pair))
    try:
        stackless.run()
    finally:
        stackless.set_schedule_callback(None)
    main = stackless.getmain()
    assert seen == [(main, tasklets[0]), (tasklets[0], tasklets[1]), (tasklets[1], main)]
    seen.clear()
    turns = [stackless.tasklet(stackless.schedule)() for _ in range(2)]
    stackless.set_schedule_callback(lambda *pair: seen.append(pair))
    try:
        stackless.run()
    finally:
        stackless.set_schedule_callback(None)
    one, two = turns
    assert seen == [(main, one), (one, two), (two, one), (one, two), (two, main)]
    with pytest.raises(TypeError):
        stackless.set_schedule_callback(1)


def test_module_attributes_and_threads(monkeypatch):
    monkeypatch.setitem(sys.modules, "stackless", stackless)
    import stackless as imported

    assert imported.current is imported.main is stackless.getcurrent() and imported.getcurrentid() == id(
        imported.current
    )
    assert imported.threads[0] == threading.get_ident() and imported.get_thread_info()[0] is imported.main
    namespace = {}
    exec("from stackless import *", namespace)
    assert namespace["channel"] is stackless.channel and namespace["run"] is stackless.run
    assert namespace["current"] is namespace["main"] is imported.main
    assert namespace["runcount"] == imported.runcount and namespace["threads"] == imported.threads
    for kind in (ValueError, RuntimeError):
        with pytest.raises(kind, match="Thread id not found"):
            imported.get_thread_info(1)


def test_twenty_thousand_in_a_chain():
    first = before = stackless.channel()

    def link(before, after):
        after.send(before.receive() + 1)

    for _ in range(20_000):
        after = stackless.channel()
        stackless.tasklet(link)(before, after)
        before = after
    stackless.schedule()
    first.send(0)
    assert before.receive() == 20_000


def test_tasklets_that_end_in_a_row_do_not_grow_the_stack():
    count = 0

    def end():
        nonlocal count
        count += 1
        if count < 50_000:
            stackless.tasklet(end)()

    stackless.tasklet(end)()
    stackless.run()
    assert count == 50_000


def test_a_callback_cannot_switch():
    """It runs in no tasklet, so there is nothing to come back to."""
    attempts = [
        stackless.schedule,
        stackless.schedule_remove,
        stackless.run,
        stackless.channel().receive,
        stackless.tasklet().bind(print, ("never",)).run,
    ]
    refused = []

    def callback(_):
        for attempt in attempts:
            with pytest.raises(RuntimeError, match="event loop itself cannot"):
                attempt()
            refused.append(attempt)

    ended = syncless.spawn(int)
    ended.add_done_callback(callback)
    ended.join()
    assert refused == attempts
    attempts[-1].__self__.kill()


def test_tasklet_exit_is_built_in():
    """Stackless programs name it without an import."""
    exit = TaskletExit  # noqa: F821
    assert exit is stackless.TaskletExit is syncless.TaskletExit and issubclass(exit, SystemExit)


# -- run() within run()


def test_tasklet_in_run_is_paused_and_can_be_woken():
    log = []

    def wakes(wake):
        assert stackless.main.paused and not stackless.main.scheduled and not stackless.main.blocked
        wake(stackless.main)
        log.append("woke it")

    for wake in (stackless.tasklet.run, stackless.tasklet.insert):
        one = stackless.tasklet(wakes)(wake)
        other = stackless.tasklet(stackless.schedule_remove)()
        stackless.run()  # it returns although others are ready
        log.append("went on")
        stackless.run()
        assert not one.alive and other.paused
        other.kill()
    assert log == ["went on", "woke it", "woke it", "went on"]


def test_inner_runs_go_on_when_the_outer_run_ends():
    log = []

    def within():
        stackless.tasklet(stackless.tasklet.run)(stackless.main)
        stackless.run()
        log.append("inner")

    stackless.tasklet(within)()
    stackless.run()
    log.append("outer")
    assert stackless.get_thread_info(-1, 1 << 31)[3] == [None]
    stackless.run()
    assert log == ["outer", "inner"]


def test_switch_trap_leaves_the_run_queue_as_it_is():
    paused = stackless.tasklet(lambda: None).bind(None, ())
    ready = [stackless.tasklet(lambda: None)() for _ in range(2)]
    stackless.switch_trap(1)
    try:
        for switch in (paused.run, paused.switch, ready[1].run, ready[1].switch):
            with pytest.raises(RuntimeError, match="switch_trap"):
                switch()
    finally:
        stackless.switch_trap(-1)
    assert paused.paused and stackless.current.next is ready[0] and ready[0].next is ready[1]
    paused.kill()
    stackless.run()


def test_insert_ends_a_sleep():
    sleeper = stackless.tasklet(syncless.sleep)(1000)
    stackless.schedule()
    assert sleeper.blocked and sleeper.insert() is sleeper
    started = time.monotonic()
    stackless.run()
    assert not sleeper.alive and time.monotonic() - started < 100


def test_error_handler_runs_as_the_tasklet_that_failed():
    seen = []

    def handler(*error):
        seen.append(stackless.getcurrent())
        with pytest.raises(RuntimeError, match="switch_trap"):
            stackless.schedule()

    stackless.set_error_handler(handler)
    try:
        failed = stackless.tasklet(lambda: 1 / 0)()
        stackless.run()
        early = stackless.tasklet(lambda: None)()
        early.throw(KeyError)
    finally:
        stackless.set_error_handler(None)
    assert seen == [failed, early] and stackless.schedule() is stackless.main


def test_a_tasklet_says_where_its_function_is_and_how_often_it_went_on():
    def work(times):
        for number in range(times):
            assert stackless.current.times_switched_to == number + 1
            stackless.schedule()

    def other():
        while stackless.runcount > 1:
            stackless.schedule()

    made = stackless.tasklet(work)
    assert (made.method_name, made.module_name, made.file_name) == ("work", __name__, __file__)
    assert made.line_number == work.__code__.co_firstlineno and made.times_switched_to == 0
    for times in (3, 2):
        made(times)
        stackless.tasklet(other)()
        stackless.run()
        assert made.times_switched_to == times + 1
        assert made.method_name is made.module_name is made.file_name is made.line_number is None
        made.bind(work)
        assert made.times_switched_to == 0
    assert stackless.tasklet(len).method_name == "len" and stackless.tasklet(len).file_name is None


def test_run_ends_before_a_timeout_around_it():
    seen = []

    def work():
        with syncless.Timeout(0.05, False):
            syncless.sleep(50)
        seen.append("work")

    for _ in range(2):
        with syncless.Timeout(7), syncless.Timeout(6):
            stackless.tasklet(work)()
            stackless.run()
    assert seen == ["work"] * 2


def test_run_is_ended_by_a_timeout_around_it():
    def work():
        syncless.sleep(50)

    worker = stackless.tasklet(work)()
    with syncless.Timeout(0.05, False):
        stackless.run()
        pytest.fail("it must not come here")
    assert worker.blocked
    worker.kill()


def test_run_in_a_tasklet_waits_for_a_timeout_of_another():
    steps = []

    def bounded():
        with syncless.Timeout(0.05, False):
            stackless.channel().receive()
        steps.append("bounded")

    def runner():
        with syncless.Timeout(7):
            stackless.run()
        steps.append("runner")

    stackless.tasklet(bounded)()
    stackless.tasklet(runner)()
    stackless.run()
    assert steps == ["bounded", "runner"]
