"""Trace and profile functions of a tasklet's own."""

import sys
import threading

import pytest

import syncless
import syncless.stackless as stackless

pytestmark = pytest.mark.virtual_time


class Recorder:
    """A trace or profile function that notes the lines or calls of chosen functions, and in which tasklet
    they were."""

    def __init__(self, *functions):
        self.codes = {function.__code__ for function in functions}
        self.seen = []

    def __call__(self, frame, event, argument):
        if frame.f_code in self.codes:
            self.seen.append((stackless.current, event))
        return self

    def count(self, tasklet, event):
        return self.seen.count((tasklet, event))


def inner():
    stackless.schedule()
    return 1


def outer(turns):
    for _ in range(turns):
        inner()


@pytest.mark.parametrize("name", ["trace_function", "profile_function"])
def test_one_tasklet_is_traced_and_no_other(name):
    record = Recorder(inner)
    traced, other = stackless.tasklet(outer)(3), stackless.tasklet(outer)(3)
    assert getattr(traced, name) is None
    setattr(traced, name, record)
    assert getattr(traced, name) is record and getattr(other, name) is None
    stackless.run()
    assert record.count(traced, "call") == record.count(traced, "return") == 3
    assert record.count(traced, "line") == (6 if name == "trace_function" else 0)
    assert {tasklet for tasklet, _ in record.seen} == {traced}
    assert sys.gettrace() is None and sys.getprofile() is None


def test_each_has_its_own():
    records = [Recorder(inner) for _ in range(3)]
    tasklets = [stackless.tasklet(outer)(5) for _ in records]
    for tasklet, record in zip(tasklets, records, strict=True):
        tasklet.trace_function = record
    stackless.run()
    for tasklet, record in zip(tasklets, records, strict=True):
        assert (
            record.count(tasklet, "line") == len([event for _, event in record.seen if event == "line"]) == 10
        )


def test_tasklet_keeps_its_trace_function_over_switches():
    record, seen = Recorder(inner), []

    def careful():
        sys.settrace(record)
        assert stackless.current.trace_function is record
        outer(2)
        seen.append(sys.gettrace())
        stackless.current.trace_function = None
        seen.append(sys.gettrace())
        inner()

    other = stackless.tasklet(outer)(5)
    other.profile_function = lambda *arguments: None
    tasklet = stackless.tasklet(careful)()
    stackless.run()
    assert seen == [record, None]
    assert record.count(tasklet, "line") == 4 == len([event for _, event in record.seen if event == "line"])


def test_trace_function_can_be_set_while_the_tasklet_waits():
    """Lines of the frame in which it waits are reported if its f_trace is set, as sys.settrace() has it."""
    channel = stackless.channel()

    def waits():
        channel.receive()
        inner()
        return 5

    record = Recorder(waits, inner)
    tasklet = stackless.tasklet(waits)()
    stackless.run()
    assert tasklet.blocked
    tasklet.trace_function = record
    frame = tasklet.frame
    while frame is not None and frame.f_code is not waits.__code__:
        frame = frame.f_back
    frame.f_trace = record
    assert tasklet.trace_function is record
    channel.send(None)
    stackless.run()
    assert record.count(tasklet, "call") == 1 and record.count(tasklet, "line") == 4
    assert not tasklet.alive and sys.gettrace() is None


def test_the_main_tasklet_keeps_its_own():
    record = Recorder(inner)
    sys.setprofile(record)
    try:
        other = stackless.tasklet(outer)(2)
        other.trace_function = Recorder()
        inner()
        stackless.run()
        assert sys.getprofile() is record and stackless.main.profile_function is record
        outer(1)
    finally:
        sys.setprofile(None)
    assert {tasklet for tasklet, _ in record.seen} == {stackless.main}


def test_schedule_callback_may_trace_new_tasklets():
    """As debuggers do it."""
    record = Recorder(inner)

    def follow(before, next):
        if next is not stackless.main:
            next.trace_function = record

    stackless.set_schedule_callback(follow)
    try:
        tasklets = [stackless.tasklet(outer)(2) for _ in range(3)]
        stackless.run()
    finally:
        stackless.set_schedule_callback(None)
    assert [record.count(tasklet, "line") for tasklet in tasklets] == [4, 4, 4]


def test_it_is_forgotten_with_the_tasklet():
    done = stackless.tasklet(outer)(1)
    done.trace_function = Recorder(inner)
    stackless.run()
    assert not done.alive and done.trace_function is None
    spawned = syncless.spawn(outer, 1)
    spawned.profile_function = record = Recorder(inner)
    spawned.join()
    assert record.count(spawned, "call") == 1


def test_object_that_is_not_callable_is_refused():
    tasklet = stackless.tasklet(outer)
    with pytest.raises(TypeError, match="must be callable, not int"):
        tasklet.trace_function = 5
    with pytest.raises(TypeError, match="must be callable, not str"):
        tasklet.profile_function = "x"
    for name in ("trace_function", "profile_function"):
        with pytest.raises(RuntimeError, match="not alive"):
            setattr(tasklet, name, print)
    tasklet.bind(outer, (2,))
    tasklet.trace_function = print
    tasklet.trace_function = None
    assert tasklet.trace_function is None
    tasklet.kill()
    tasklet.trace_function = None


def test_of_another_thread():
    record, there, go = Recorder(inner), [], threading.Event()

    def thread():
        there.append(stackless.tasklet(outer, (2,)))
        syncless.run_in_thread(go.wait)
        there[0].insert()
        stackless.run()

    worker = threading.Thread(target=thread)
    worker.start()
    while not there:
        syncless.sleep(0.001)
    (tasklet,) = there
    tasklet.trace_function = record
    go.set()
    syncless.run_in_thread(worker.join)
    assert record.count(tasklet, "line") == 4
    with pytest.raises(RuntimeError, match="not alive"):
        tasklet.trace_function = record  # its thread has ended


def test_tasklet_that_runs_in_another_thread_is_refused():
    there, go = [], threading.Event()

    def thread():
        there.append(stackless.current)
        go.wait()

    worker = threading.Thread(target=thread)
    worker.start()
    while not there:
        syncless.sleep(0.001)
    with pytest.raises(RuntimeError, match="another thread"):
        there[0].trace_function = print
    go.set()
    worker.join()


def test_while_bytecodes_are_counted():
    """run(timeout) has the thread's trace function before Python 3.12; a tasklet's own comes back after
    it."""
    record = Recorder(inner)
    tasklet = stackless.tasklet(outer)(10)
    tasklet.trace_function = record
    assert stackless.run(1000) is None
    again = stackless.tasklet(outer)(2)
    again.trace_function = record
    stackless.run()
    assert record.count(again, "line") == 4
    if sys.version_info >= (3, 12):
        assert record.count(tasklet, "line") == 20
