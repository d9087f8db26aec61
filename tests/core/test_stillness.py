"""What promises not to wait lets no other tasklet run: what directly() calls, and entries of the logs."""

import pathlib

import pytest

import syncless
from syncless import Tasklet, current, sleep, spawn
from syncless._core.current import directly
from syncless._core.loop import checked
from syncless._core.tasklet import where_it_may_wait
from syncless.testing.choices import Watch
from tests.units import built


@pytest.fixture(scope="module")
def break_promise(tmp_path_factory):
    source = pathlib.Path(__file__).parent / "promises.pyx"
    return built(source, tmp_path_factory.mktemp("promises")).break_promise


@pytest.mark.parametrize("wait", [lambda: sleep(0), lambda: sleep(0.001)])
def test_wait_is_refused_in_a_step_that_must_not_wait(wait):
    with pytest.raises(RuntimeError, match=r"must not wait|cannot yield"):
        directly(wait)
    sleep(0)


def test_step_within_a_step_and_its_error_leave_the_tasklet_current():
    me = current()

    def fails():
        directly(int)
        assert current() is None
        raise LookupError

    with pytest.raises(LookupError):
        directly(fails)
    assert current() is me
    sleep(0)


@pytest.mark.skipif(not checked, reason="needs a build with assertions: SYNCLESS_BUILD=debug")
def test_debug_build_tells_of_a_step_that_has_let_others_run(break_promise):
    def lets_others_run():
        break_promise(syncless.current_loop(), "stillness")

    with pytest.raises(AssertionError, match="promised not to wait"):
        directly(lets_others_run)
    sleep(0)


def test_code_of_the_program_is_called_where_it_may_wait():
    called = []

    def waits():
        sleep(0)
        called.append(current())

    where_it_may_wait(waits)
    assert called == [current()]
    directly(where_it_may_wait, waits)
    assert len(called) == 1
    while len(called) == 1:
        sleep(0)
    assert called[1] is not current()


def test_error_handler_may_wait():
    told = []

    def handler(where, error):
        sleep(0)
        told.append(type(error))

    def fails():
        raise LookupError

    previous = syncless.set_error_handler(handler)
    try:
        spawn(fails).join()
        while not told:
            sleep(0)
    finally:
        syncless.set_error_handler(previous)
    assert told == [LookupError]


class Waits:
    """An object whose finaliser waits."""

    def __init__(self, told):
        self.told = told

    def __del__(self):
        sleep(0)
        self.told.append("waited")


def test_finaliser_of_a_tasklets_argument_may_wait():
    told = []
    spawn(lambda waits: None, Waits(told)).join()
    assert told == ["waited"]


def test_error_of_who_is_told_of_a_stop_loses_no_tasklet():
    """Those that are ready run, also the one that would have been the next; so do those that join."""

    def fail(tasklet):
        raise KeyError("on purpose")

    ran, reported = [], []
    previous = syncless.set_error_handler(lambda where, error: reported.append(type(error)))
    watch = Watch(fail, lambda tasklet: None)
    watch.start()
    try:
        ones = [spawn(ran.append, n) for n in range(3)]
        for one in ones:
            one.join()
    finally:
        watch.stop()
    current().set_switch_hook(fail)
    try:
        two = [spawn(lambda: sleep(0) or ran.append(9)) for _ in range(2)]
        sleep(0)
        sleep(0)
        two[1].join()
    finally:
        current().set_switch_hook(None)
        syncless.set_error_handler(previous)
    assert ran == [0, 1, 2, 9, 9]
    assert set(reported) == {KeyError}


def test_tasklet_is_initialised_once():
    tasklet = Tasklet(sleep, 0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="has been started already"):
            tasklet.__init__(print)
        tasklet.join()


def test_error_of_who_is_told_of_a_first_turn_is_that_of_the_tasklet(reports):
    """Its function is not called; those that join it, and the others, go on."""

    def fail(tasklet):
        if tasklet is one:
            raise KeyError("on purpose")

    ran = []
    one, other = [spawn(ran.append, n) for n in range(2)]
    watch = Watch(lambda tasklet: None, fail)
    watch.start()
    try:
        with pytest.raises(KeyError, match="on purpose"):
            one.result(1)
        other.join()
    finally:
        watch.stop()
    assert ran == [1]
