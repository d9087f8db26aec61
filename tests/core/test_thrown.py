"""A tasklet raises each exception that was thrown at it, in order and once, unless the thrower has taken it
back."""

import gc
import itertools
import time

import pytest

from syncless import (
    Channel,
    Condition,
    Event,
    Lock,
    Pool,
    RLock,
    TaskGroup,
    TaskletExit,
    TaskletKilled,
    Timeout,
    current_loop,
    deadline,
    sleep,
    spawn,
)
from syncless._core.current import uninterrupted
from syncless.stackless import channel, schedule, tasklet
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


class Interrupted(Exception):
    """Raised from outside."""


def hold(seconds):
    """Uses the processor, so that all times are over when the loop looks next."""
    time.sleep(seconds)


def catches(wait, times, caught):
    """Waits as often as that, and notes what each wait raises."""
    for _ in range(times):
        try:
            wait()
        except BaseException as error:
            caught.append(error)
    return caught


@pytest.mark.parametrize("wait", [lambda: sleep(1000), lambda: sleep(0), Event().wait, Channel().receive])
def test_exceptions_thrown_in_one_turn_are_raised_in_order(wait):
    thrown = [Interrupted(1), TaskletExit(), Interrupted(2), KeyError(3), Interrupted(4)]
    caught = []
    victim = spawn(catches, wait, len(thrown), caught)
    sleep(0)
    for error in thrown:
        assert not victim.kill(error, block=False)
    victim.join()
    assert caught == thrown


def test_an_exception_thrown_twice_is_raised_twice():
    error, caught = Interrupted(), []
    victim = spawn(catches, lambda: sleep(1000), 2, caught)
    sleep(0)
    victim.kill(error, block=False)
    victim.kill(error, block=False)
    assert victim.join(5) and caught == [error, error]


def test_outer_deadline_of_the_same_length_is_raised():
    def bounded():
        with pytest.raises(TimeoutError), deadline(0.001):
            for _ in range(100):
                try:
                    with deadline(0.001):
                        sleep(1)
                except TimeoutError:
                    pass
            return "the outer deadline was lost"

    assert [bounded() for _ in range(100)] == [None] * 100


def test_deadlines_that_ring_at_once_are_both_raised():
    """The inner one has rung first, so the outer one is raised at the next wait."""
    outer = Timeout(0.002)
    with pytest.raises(Timeout) as raised, outer:
        with Timeout(0.001, False):
            hold(0.01)
            sleep(1)
        sleep(1)
    assert raised.value is outer


def test_outer_timeout_leaves_nothing_of_the_inner_one():
    with Timeout(0.001, False):
        with Timeout(0.002, Interrupted):
            hold(0.01)
            sleep(1)
        pytest.fail("the outer timeout was lost")
    sleep(0.005)


def test_timeout_block_takes_back_only_its_own_timeout():
    """Also of several that raise the same exception."""
    error = Interrupted()
    with pytest.raises(Interrupted):
        outer = Timeout.start_new(0.002, error)
        with Timeout(0.001, error):
            hold(0.01)
            try:
                sleep(1)
            except Interrupted:  # the inner one
                pass
        assert not outer.pending
        sleep(1)
    sleep(0.005)
    outer.cancel()


@pytest.mark.parametrize("turns", range(4))
def test_a_cancelled_timeout_is_not_raised_and_the_others_are(turns):
    """Three have rung behind a kill; each may be the one that is taken back. The loop may notice up to three
    turns late that time has passed, so they ring at several moments."""
    for cancelled in itertools.product([False, True], repeat=3):
        caught = []

        def body(cancelled=cancelled, caught=caught):
            timeouts = [Timeout(0.001), Timeout(0.001), Timeout(0.001)]
            for timeout in timeouts:
                timeout.start()
            try:
                sleep(1)
            except TaskletExit:
                pass
            for timeout, cancel in zip(timeouts, cancelled, strict=True):
                if cancel:
                    timeout.cancel()
            catches(lambda: sleep(0), 8, caught)
            assert caught == [
                timeout for timeout, cancel in zip(timeouts, cancelled, strict=True) if not cancel
            ]

        for _ in range(turns):
            sleep(0)
        victim = spawn(body)
        sleep(0)
        victim.kill(block=False)
        hold(0.005)
        victim.result()


def test_a_timeout_started_again_is_raised_once():
    timeout, caught = Timeout(0.001), []
    other = Timeout(0.001)
    other.start()
    timeout.start()
    hold(0.005)
    with pytest.raises(Timeout) as raised:
        sleep(1)
    assert raised.value is other
    timeout.start()
    catches(lambda: sleep(0.005), 3, caught)
    assert caught == [timeout]


def test_a_kill_is_not_displaced_by_a_timeout():
    def body():
        with Timeout(0.001, False):
            sleep(1)
        sleep(1)

    for first in (True, False):
        victim = spawn(body)
        sleep(0)
        if first:
            victim.kill(block=False)
            hold(0.01)  # the timeout rings before the victim's turn comes
        else:
            spawn(lambda victim=victim: (sleep(0.0005), victim.kill(block=False)))
            sleep(0)
            hold(0.01)  # both are due: the killer's turn comes first, when the timeout has rung already
        assert victim.join(0.5)
        with pytest.raises(TaskletKilled):
            victim.result()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("later", [False, True])
def test_an_interrupt_from_a_tasklet_is_not_displaced_by_the_main_timeout(kind, later):
    def ends():
        sleep(0.0005)
        if later:
            hold(0.01)  # the timeout rings when the exception has been thrown
        raise kind(7)

    spawn(ends)
    sleep(0)
    with pytest.raises(kind) as raised:
        with Timeout(0.005, False):
            if not later:
                hold(0.01)  # it rings before the exception is thrown
            sleep(1)
        sleep(1)
    assert raised.value.args == (7,)
    sleep(0)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_that_a_tasklet_does_not_live_to_raise_goes_to_the_main_one(kind):
    victim = spawn(sleep, 1000)
    sleep(0)
    victim.kill(block=False)
    victim.kill(kind(7), block=False)
    with pytest.raises(kind) as raised:
        victim.join()
    assert raised.value.args == (7,) and victim.done()


def test_a_tasklet_that_ends_before_it_raises_a_kill_has_its_result():
    def body():
        with Timeout(0.002, False):
            sleep(1)
        return "result"

    victim = spawn(body)
    killer = spawn(lambda: (sleep(0.001), victim.kill(block=False)))
    sleep(0)
    hold(0.01)  # the killer's turn comes first, when the timeout has rung already
    killer.join()
    assert victim.result() == "result"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_new_tasklet_raises_the_first_and_does_not_lose_an_interrupt(kind):
    ran = []
    victim = tasklet(ran.append)(1)
    victim.throw(TaskletExit, pending=True)
    victim.throw(kind, (7,), pending=True)
    with pytest.raises(kind) as raised:
        sleep(1)
    assert raised.value.args == (7,) and not victim.alive and not ran


def test_an_exception_waits_while_the_tasklet_cleans_up():
    told = []

    def body():
        try:
            sleep(1)
        finally:
            told.append("cleans up")
            try:
                sleep(1)
            except Interrupted:
                told.append("interrupted")

    victim = spawn(body)
    sleep(0)
    victim.kill(block=False)
    victim.kill(Interrupted, block=False)
    victim.join()
    assert told == ["cleans up", "interrupted"] and isinstance(victim.exception(), TaskletExit)


def test_stackless_exceptions_are_raised_in_order():
    caught = []
    victim = tasklet(catches)(schedule, 3, caught)
    victim.run()
    thrown = [Interrupted(1), Interrupted(2), Interrupted(3)]
    victim.throw(thrown[0], pending=True)
    victim.throw(thrown[1], pending=True)
    victim.throw(thrown[2])
    while victim.alive:
        schedule()
    assert caught == thrown


def test_stackless_kill_is_not_displaced_by_a_timeout():
    def body():
        with Timeout(0.001, False):
            channel().receive()
        sleep(1)
        pytest.fail("the kill was lost")

    victim = tasklet(body)()
    victim.run()
    victim.kill(pending=True)
    hold(0.005)
    assert eventually(lambda: not victim.alive)


@pytest.mark.parametrize("lock", [RLock, Lock])
def test_a_condition_raises_the_first_and_keeps_the_rest(lock):
    """The first when it has its lock again; the others are not lost while it waits for that."""
    condition, caught, told = Condition(lock()), [], []

    def body():
        with condition:
            catches(condition.wait, 1, caught)
            told.append("has the lock")
            catches(lambda: sleep(1), 2, caught)

    victim = spawn(body)
    sleep(0)
    thrown = [Interrupted(1), TaskletExit(), Interrupted(2)]
    with condition:
        for error in thrown:
            victim.kill(error, block=False)
            sleep(0)
            sleep(0)
        assert not told
    assert victim.join(5) and caught == thrown and told == ["has the lock"]


def test_a_timeout_that_rings_while_a_condition_takes_its_lock_is_taken_back():
    condition, caught = Condition(), []

    def body():
        try:
            with condition, Timeout(0.002):
                condition.wait()
        except BaseException as error:
            caught.append(error)
        sleep(0.005)
        return "result"

    victim = spawn(body)
    sleep(0)
    with condition:
        victim.kill(Interrupted, block=False)
        sleep(0.01)
    assert victim.result(5) == "result" and [type(error) for error in caught] == [Interrupted]


def test_a_group_keeps_what_is_thrown_while_it_waits_for_its_children():
    leave, caught = Event(), []

    def child():
        try:
            sleep(1000)
        finally:
            leave.wait()

    def body():
        try:
            with TaskGroup() as group:
                group.spawn(child)
        except Interrupted as error:
            caught.append(error)
        catches(lambda: sleep(1), 2, caught)

    victim = spawn(body)
    sleep(0)
    thrown = [Interrupted(1), TaskletExit(), Interrupted(2)]
    for error in thrown:
        victim.kill(error, block=False)
        sleep(0)
        sleep(0)
    leave.set()
    assert victim.join(5) and caught == thrown


def test_a_group_leaves_nothing_pending():
    """Its own signal is taken back, if its owner was interrupted by something else first."""
    ready = Event()

    def fails():
        ready.wait()
        raise KeyError("child")

    def body():
        with pytest.raises(TaskletExit), TaskGroup() as group:
            group.spawn(fails)
            sleep(1000)
        sleep(0)
        return "result"

    victim = spawn(body)
    sleep(0)
    sleep(0)
    ready.set()
    victim.kill(block=False)  # before the child fails
    assert victim.result(5) == "result"


def test_ctrl_c_is_raised_also_where_nothing_else_is():
    def interrupts():
        loop.interrupt(Interrupted(1))
        assert loop.interrupt(KeyboardInterrupt(2)) and not loop.interrupt(KeyboardInterrupt(3))

    loop = current_loop()
    spawn(interrupts)
    with pytest.raises(KeyboardInterrupt) as raised:
        uninterrupted(sleep, 1)
    assert raised.value.args == (2,)
    with pytest.raises(Interrupted):
        sleep(1)
    sleep(0)


def test_an_exception_taken_back_is_not_raised():
    errors, caught = [Interrupted(number) for number in range(4)], []
    victim = spawn(catches, lambda: sleep(0.001), 4, caught)
    sleep(0)
    for error in errors:
        victim.kill(error, block=False)
    victim.take_back(errors[0])
    victim.take_back(errors[2])
    victim.take_back(Interrupted())
    assert victim.join(5) and caught == [errors[1], errors[3]]


def test_pool_ends_each_worker_once():
    """Also if several of them fail in one turn: their clean-up is not interrupted."""
    fail, cleaned = Event(), []

    def work(number):
        if number < 2:
            fail.wait()
            raise KeyError(number)
        try:
            sleep(1000)
        finally:
            sleep(0.001)
            cleaned.append(number)

    pool = Pool(4)
    spawn(lambda: (sleep(0.001), fail.set()))
    with pytest.raises(KeyError):
        pool.map(work, range(4))
    assert sorted(cleaned) == [2, 3] and len(pool) == 0


def test_an_exception_thrown_while_another_one_is_kept():
    """By a finaliser, which the garbage collector may run wherever an object is made."""
    for later in range(-5, 20):
        caught = []
        victim = spawn(catches, lambda: sleep(1000), 3, caught)
        sleep(0)

        class Trash:
            def __del__(self, victim=victim):
                victim.kill(Interrupted(1), block=False)

        victim.kill(Interrupted(0), block=False)
        trash = Trash()
        trash.itself = trash
        del trash
        held = [[] for _ in range(200)]  # or the interpreter would have spare ones, for which it does not run
        threshold, error = gc.get_threshold(), Interrupted(2)
        gc.set_threshold(max(1, gc.get_count()[0] + later))  # it runs at one of the next objects
        try:
            victim.kill(error, block=False)
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        assert victim.join(5) and sorted(error.args[0] for error in caught) == [0, 1, 2] and held
