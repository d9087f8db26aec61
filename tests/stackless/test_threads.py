"""Tasklets belong to threads: operations by other threads, and the tasklets of an ended thread."""

import contextlib
import queue
import random
import sys
import threading
import time

import pytest

import syncless
import syncless.stackless as stackless
from syncless import TaskletExit
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


@contextlib.contextmanager
def another_thread(prepare):
    """A thread that calls prepare(), which returns something; then it runs what is in its run queue until the
    block ends."""
    made, ready, over = [], threading.Event(), threading.Event()

    def body():
        made.append(prepare())
        ready.set()
        while not over.is_set():
            stackless.run()
            time.sleep(0.001)
        stackless.run()

    thread = threading.Thread(target=body)
    thread.start()
    ready.wait()
    try:
        yield thread, made[0]
    finally:
        over.set()
        thread.join()


def paused(log):
    """A tasklet that notes its thread when it goes on, or what was raised in it."""

    def body():
        try:
            stackless.schedule_remove()
            log.append(threading.get_ident())
        except BaseException as error:
            log.append(error)

    tasklet = stackless.tasklet(body)()
    tasklet.run()
    return tasklet


@pytest.mark.parametrize("do", ["insert", "run"])
@pytest.mark.parametrize("kind", ["new", "paused"])
def test_it_runs_where_it_belongs(kind, do):
    log = []

    def new():
        return stackless.tasklet().bind(lambda: log.append(threading.get_ident()), ())

    with another_thread(new if kind == "new" else lambda: paused(log)) as (thread, tasklet):
        assert tasklet.thread_id == thread.ident and tasklet.paused
        with pytest.raises(RuntimeError, match="different thread"):
            tasklet.switch()
        getattr(tasklet, do)()
        assert eventually(lambda: log) and log == [thread.ident]
    assert not tasklet.alive


@pytest.mark.parametrize("pending", [False, True])
def test_it_is_interrupted_where_it_belongs(pending):
    log = []
    with another_thread(lambda: paused(log)) as (_, tasklet):
        tasklet.throw(KeyError, "thrown", pending=pending)
        assert eventually(lambda: log) and isinstance(log[0], KeyError)
    with another_thread(lambda: paused(log)) as (_, tasklet):
        log.clear()
        tasklet.kill(pending)
        assert eventually(lambda: log) and isinstance(log[0], stackless.TaskletExit)
    with another_thread(lambda: stackless.tasklet().bind(log.append, (1,))) as (_, tasklet):
        tasklet.kill(pending)
    assert len(log) == 1 and not tasklet.alive


def test_tasklet_of_another_thread_is_interrupted_when_it_waits():
    log, thrown = [], threading.Event()

    def runs():
        log.append("runs")
        thrown.wait()
        try:
            stackless.schedule()
        except KeyError as error:
            log.append(error)

    with another_thread(lambda: stackless.tasklet().bind(runs, ())) as (_, tasklet):
        tasklet.insert()
        assert eventually(lambda: log) and log == ["runs"]
        tasklet.throw(KeyError)
        with pytest.raises(RuntimeError, match="another thread"):
            tasklet.remove()
        thrown.set()
    assert isinstance(log[1], KeyError) and not tasklet.alive


def test_it_is_taken_out_of_the_run_queue_there():
    log = []

    def ready():
        return [stackless.tasklet(log.append)(number) for number in range(3)] + [paused(log)]

    over = threading.Event()
    made = []
    thread = threading.Thread(
        target=lambda: (made.extend(ready()), made[-1].insert(), got.set(), over.wait(), stackless.run())
    )
    got = threading.Event()
    thread.start()
    got.wait()
    new, started = made[1], made[3]
    new.remove()
    started.remove()
    assert new.paused and started.paused
    over.set()
    thread.join()
    assert log == [0, 2, log[2]] and isinstance(log[2], stackless.TaskletExit)


def test_new_tasklet_can_be_moved_to_another_thread():
    log = []
    mine = threading.get_ident()
    with another_thread(stackless.getmain) as (thread, _):
        tasklet = stackless.tasklet(lambda: log.append(threading.get_ident()))
        assert tasklet.thread_id == mine
        tasklet.bind_thread(thread.ident)
        assert tasklet.thread_id == thread.ident
        tasklet()
        assert eventually(lambda: log) and log == [thread.ident]
        tasklet.bind_thread(-1)  # as without an argument: the present thread
        assert tasklet.thread_id == mine
        tasklet.bind(log.append, ("here",)).insert()
        for wrong, error in ((-2, OverflowError), (1, ValueError), ("x", TypeError)):
            with pytest.raises(error):
                stackless.tasklet().bind_thread(wrong)
        with pytest.raises(RuntimeError, match="runnable"):
            tasklet.bind_thread(thread.ident)
        stackless.run()
    assert log == [thread.ident, "here"]


def test_tasklets_of_an_ended_thread_are_dead():
    log = []
    channel = stackless.channel()

    def several():
        blocked = stackless.tasklet(channel.receive)()
        stackless.schedule()
        return (
            blocked,
            paused(log),
            stackless.tasklet().bind(log.append, (1,)),
            stackless.tasklet(log.append),
            stackless.getmain(),
        )

    with another_thread(several) as (_, made):
        assert channel.balance == -1
        made[2].remove()
    assert isinstance(log[0], stackless.TaskletExit) and len(log) == 1 and channel.balance == 0
    for tasklet in made:
        assert (tasklet.alive, tasklet.paused, tasklet.blocked, tasklet.scheduled, tasklet.thread_id) == (
            False,
        ) * 4 + (-1,)
        with pytest.raises(RuntimeError, match="dead"):
            tasklet.insert()
        tasklet.kill()
        with pytest.raises(RuntimeError, match=r"dead|no thread"):
            tasklet.throw(KeyError)
    again = made[3]
    with pytest.raises(RuntimeError, match="has no thread"):
        again.bind(log.append, ("again",))
    again.bind_thread()
    assert again.thread_id == threading.get_ident()
    again.bind(log.append, ("again",)).insert()
    stackless.run()
    assert log[1:] == ["again"]


def test_run_of_a_tasklet_of_another_thread_makes_it_the_next_one_there():
    log, made, got, over = [], [], threading.Event(), threading.Event()

    def thread():
        made.extend(stackless.tasklet(log.append).bind(None, (number,)) for number in range(4))
        got.set()
        over.wait()
        stackless.run()

    other = threading.Thread(target=thread)
    other.start()
    got.wait()
    made[1].insert()
    made[2].insert()
    made[0].run()
    made[2].run()  # it is in the queue already
    made[3].insert()
    over.set()
    other.join()
    assert log == [2, 0, 1, 3]


def test_main_tasklet_goes_on_if_no_tasklet_can_insert_it():
    assert stackless.schedule_remove("alone") == "alone"
    log = []
    stackless.tasklet(log.append)("other")
    stackless.getmain().remove()
    assert log == ["other"]


ACTIONS = {
    "insert": lambda tasklet, dice: tasklet.insert(),
    "run": lambda tasklet, dice: tasklet.run(),
    "remove": lambda tasklet, dice: None if tasklet.is_current else tasklet.remove(),
    "switch": lambda tasklet, dice: (stackless.tasklet(tasklet.switch)(), stackless.schedule()),
    "kill": lambda tasklet, dice: tasklet.kill(dice.random() < 0.5),
    "throw": lambda tasklet, dice: tasklet.throw(KeyError),
    "bind": lambda tasklet, dice: tasklet.bind(lives, ()),
    "bind_thread": lambda tasklet, dice: tasklet.bind_thread(dice.choice(dice.threads).ident),
    "look": lambda tasklet, dice: (
        tasklet.paused,
        tasklet.thread_id,
        tasklet.next,
        tasklet.prev,
        tasklet.frame,
        stackless.runcount,
    ),
    "schedule": lambda tasklet, dice: stackless.schedule(),
}


def lives():
    for wait in (stackless.schedule, stackless.schedule_remove, lambda: syncless.sleep(0.0005)) * 5:
        wait()


@pytest.mark.parametrize("seed", range(4))
def test_threads_may_operate_on_tasklets_of_other_threads(seed):
    """Also while those threads end. Errors of use are all that may come of it; the engine reports none of its
    own."""
    shared, threads, unexpected = [], [], []

    def does(number):
        dice = random.Random(10 * seed + number)
        dice.threads = threads
        for _ in range(dice.randrange(10_000)):
            if len(shared) < 20:
                shared.append(stackless.tasklet().bind(lives, ()))
            try:
                ACTIONS[dice.choice(list(ACTIONS))](dice.choice(shared), dice)
            except (RuntimeError, KeyError, ValueError, stackless.TaskletExit):
                pass
            except BaseException as error:
                unexpected.append(error)

    before, interval = stackless.set_error_handler(lambda *error: None), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(3):
            threads[:] = [threading.Thread(target=does, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
        stackless.set_error_handler(before)
    assert not unexpected
    assert not any(tasklet.alive for tasklet in shared)


def test_kill_of_another_threads_main_tasklet_does_not_wait_for_it():
    caught, over = [], threading.Event()

    def body():
        mains.put(stackless.getmain())
        try:
            while True:
                syncless.sleep(0.001)
        except TaskletExit as error:
            caught.append(error)
        over.wait()  # it lives on

    mains = queue.Queue()
    thread = threading.Thread(target=body)
    thread.start()
    try:
        main = mains.get()
        main.kill()
        assert eventually(lambda: caught) and main.alive
    finally:
        over.set()
        thread.join()
