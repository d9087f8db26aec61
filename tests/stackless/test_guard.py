"""Tasklets whose exceptions do not reach run(): dont_raise, exception_handler, context_manager_getter."""

import contextlib
import sys

import pytest

import syncless.stackless as stackless

pytestmark = pytest.mark.virtual_time


def fail(*args, **kwargs):
    raise LookupError(args, kwargs)


def guarded(function, **attributes):
    made = stackless.tasklet(function)
    made.dont_raise = True
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def test_exception_is_reported_and_not_raised_in_run(reports):
    made = guarded(fail)(1, two=2)
    stackless.run()
    assert not made.alive and [(where, repr(error)) for where, error in reports] == [
        (made, "LookupError((1,), {'two': 2})")
    ]


def test_without_dont_raise_the_handler_and_the_context_manager_are_not_called():
    made = stackless.tasklet(fail)
    made.exception_handler = made.context_manager_getter = pytest.fail
    made()
    with pytest.raises(LookupError):
        stackless.run()


def test_handler_is_called_with_a_text_in_place_of_the_report():
    seen = []
    made = guarded(fail, exception_handler=lambda text: seen.append((text, sys.exc_info()[0])))()
    stackless.run()
    assert seen[0][1] is LookupError and made.name in seen[0][0]


def test_exception_of_the_handler_is_reported_with_the_first_one(reports):
    def handle(text):
        raise ZeroDivisionError

    guarded(fail, exception_handler=handle)()
    stackless.run()
    ((where, error),) = reports
    assert where is handle and isinstance(error, ZeroDivisionError)
    assert isinstance(error.__context__, LookupError)


def test_function_runs_inside_its_context_manager():
    steps = []

    @contextlib.contextmanager
    def around(one):
        steps.append(one)
        yield  # an exception of the function does not come here
        steps.append("end")

    def work():
        steps.append("work")
        stackless.schedule()
        fail()

    made = guarded(work, context_manager_getter=around, exception_handler=steps.append)()
    stackless.run()
    assert steps[:2] == [made, "work"] and steps[-1] == "end"


@pytest.mark.parametrize("place", ["getter", "enter", "exit"])
def test_exception_of_the_context_manager_is_raised_in_run(place):
    steps = []

    class Around:
        def __init__(self, one):
            assert place != "getter"

        def __enter__(self):
            assert place != "enter"

        def __exit__(self, *error):
            assert error == (None, None, None) and place != "exit"

    guarded(steps.append, context_manager_getter=Around)("work")
    with pytest.raises(AssertionError):
        stackless.run()
    assert steps == (["work"] if place == "exit" else [])


def test_killed_tasklet_and_exit_are_not_held_back():
    ended = []

    def work():
        try:
            stackless.channel().receive()
        except BaseException as error:
            ended.append(type(error))
            raise

    made = guarded(work, exception_handler=pytest.fail)()
    stackless.run()
    made.kill()
    assert ended == [stackless.TaskletExit] and not made.alive


def test_attributes_are_kept_when_it_is_bound_again_and_refused_once_it_has_started():
    made = guarded(stackless.schedule)()
    stackless.schedule()
    with pytest.raises(RuntimeError, match="before the tasklet starts"):
        made.dont_raise = False
    stackless.run()
    seen = []
    made.exception_handler = seen.append
    made.bind(fail)()
    stackless.run()
    assert made.dont_raise and made.exception_handler == seen.append and len(seen) == 1


def test_wrong_values_are_refused():
    made = stackless.tasklet()
    assert made.dont_raise is False and made.exception_handler is made.context_manager_getter is None
    for name, value in (("dont_raise", 1), ("exception_handler", 1), ("context_manager_getter", "x")):
        with pytest.raises(TypeError, match=name):
            setattr(made, name, value)
    made.exception_handler = made.context_manager_getter = None
