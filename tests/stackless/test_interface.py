"""Names, kinds and texts, which programs for Stackless compare: its functions are written in C."""

import inspect
import types

import pytest

import syncless.stackless as stackless

pytestmark = pytest.mark.virtual_time

FUNCTIONS = [
    name for name in stackless.__all__ if isinstance(getattr(stackless, name), types.BuiltinFunctionType)
]


def test_functions_are_builtin_and_documented():
    assert {"run", "schedule", "schedule_remove", "getcurrent", "getmain", "getruncount"} <= {*FUNCTIONS}
    for name in FUNCTIONS:
        assert getattr(stackless, name).__doc__, name
    assert inspect.isbuiltin(stackless.get_thread_info)


def test_the_module_has_itself_for_programs_that_import_everything():
    assert stackless.stackless is stackless and "stackless" in stackless.__all__
    namespace = {}
    exec("from syncless.stackless import *", namespace)
    assert namespace["stackless"].schedule() is namespace["getcurrent"]()


CHANNEL, TASKLET = stackless.channel(), stackless.tasklet()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: stackless.getcurrent(1), "takes no arguments (1 given)"),
        (lambda: TASKLET.insert(1), "takes no arguments (1 given)"),
        (lambda: TASKLET.run(1), "takes no arguments (1 given)"),
        (lambda: CHANNEL.receive(1), "takes no arguments (1 given)"),
        (lambda: CHANNEL.close(1), "takes no arguments (1 given)"),
        (lambda: CHANNEL.send(), "takes exactly one argument (0 given)"),
        (lambda: CHANNEL.send(1, 2), "takes exactly one argument (2 given)"),
        (lambda: CHANNEL.send_sequence(), "takes exactly one argument (0 given)"),
        (lambda: TASKLET.set_atomic(1, 2), "takes exactly one argument (2 given)"),
        (lambda: stackless.schedule(1, 2), "schedule() takes at most 1 argument (2 given)"),
        (lambda: stackless.schedule_remove(1, 2), "schedule_remove() takes at most 1 argument (2 given)"),
        (lambda: stackless.run(1, 2, 3, 4, 5, 6), "run() takes at most 5 arguments (6 given)"),
        (lambda: stackless.get_thread_info(1, 2, 3), "get_thread_info() takes at most 2 arguments (3 given)"),
        (lambda: stackless.tasklet(1, 2, 3, 4), "tasklet() takes at most 3 arguments (4 given)"),
        (lambda: TASKLET.bind(1, 2, 3, 4), "bind() takes at most 3 arguments (4 given)"),
        (lambda: TASKLET.bind_thread(1, 2), "bind_thread() takes at most 1 argument (2 given)"),
        (lambda: TASKLET.kill(1, 2), "kill() takes at most 1 argument (2 given)"),
        (lambda: TASKLET.throw(1, 2, 3, 4, 5), "throw() takes at most 4 arguments (5 given)"),
        (lambda: TASKLET.throw(), "throw() missing required argument 'exc' (pos 1)"),
        (lambda: TASKLET.raise_exception(), "missing required argument 'exc_class' (pos 1)"),
        (lambda: CHANNEL.send_exception(), "send_exception() missing required argument 'exc' (pos 1)"),
        (lambda: CHANNEL.send_throw(), "send_throw() missing required argument 'exc' (pos 1)"),
        (lambda: CHANNEL.send_throw(1, 2, 3, 4), "send_throw() takes at most 3 arguments (4 given)"),
        (lambda: setattr(CHANNEL, "schedule_all", 2.5), "schedule_all must be set to a bool or integer"),
        (lambda: setattr(CHANNEL, "preference", 2.5), "preference must be set to an integer"),
        (lambda: TASKLET.set_atomic(1.5), "needs exactly one bool or integer"),
        (lambda: TASKLET.set_ignore_nesting("x"), "needs exactly one bool or integer"),
        (lambda: TASKLET.bind_thread("x"), "an integer is required"),
        (lambda: TASKLET.bind(5), "tasklet function must be a callable or None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_arguments_are_refused_in_the_words_of_functions_of_c(call, text):
    with pytest.raises(TypeError) as caught:
        call()
    assert text in str(caught.value)


def test_thread_info():
    main, current, count, *figures = stackless.get_thread_info(-1, 1 << 30)
    assert main is current is stackless.getcurrent() and count == 1 and figures == [0, 0, None]
    assert stackless.get_thread_info(None, 1 << 31)[3] == [None]
    seen = []

    def looks():
        seen.append(stackless.get_thread_info(-1, 1 << 31)[3])
        assert seen == [[None, main]]

    stackless.tasklet(looks)()
    stackless.run()
    (list_of_runners,) = seen
    assert list_of_runners == [None]  # it is up to date: run() has ended
    with pytest.raises(OverflowError):
        stackless.get_thread_info(-2)


def test_function_of_a_tasklet_is_its_tempval_until_it_has_arguments():
    log = []
    one = stackless.tasklet(log.append)
    assert one.tempval == log.append
    function = one.tempval
    one.tempval = lambda value: function([value])  # as Stackless's documentation wraps it
    one("wrapped")
    assert one.tempval is None
    stackless.run()
    assert log == [["wrapped"]]
    assert stackless.tasklet(log.append).bind(None).tempval is None


def test_a_subclass_of_channel_may_take_arguments():
    class Named(stackless.channel):
        def __init__(self, name):
            super().__init__(name)
            self.name = name

    assert Named("x").name == "x" and Named("x").preference == -1


def test_channel_callback_sees_what_is_sent():
    seen = []
    channel = stackless.channel()
    receiver = stackless.tasklet(channel.receive)()
    stackless.schedule()
    stackless.set_channel_callback(lambda channel, tasklet, sending, blocks: seen.append(tasklet.tempval))
    try:
        channel.send("value")
        assert not receiver.alive and stackless.current.tempval is None
    finally:
        stackless.set_channel_callback(None)
    assert seen == ["value"]
