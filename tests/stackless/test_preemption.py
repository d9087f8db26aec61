"""run(timeout): tasklets that do not give way are interrupted after a number of bytecodes, which is counted
exactly."""

import itertools
import sys
import threading

import pytest

import syncless
import syncless.stackless as stackless


def hog(turns, name="one"):
    while True:
        turns[name] = turns.get(name, 0) + 1


def kill(*tasklets):
    for tasklet in tasklets:
        tasklet.remove()
    for tasklet in tasklets:
        tasklet.kill()


def test_the_interrupted_tasklet_is_returned_paused():
    turns = {}
    victim = stackless.tasklet(hog)(turns)
    assert stackless.run(1000) is victim
    assert victim.paused and victim.alive and stackless.runcount == 1 and turns["one"] > 10
    before = turns["one"]
    assert stackless.run(1000) is None and turns["one"] == before  # nobody is in the run queue
    kill(victim)


def test_the_count_is_exact_and_repeatable():
    def turns_in(timeout):
        turns = {}
        victim = stackless.tasklet(hog)(turns)
        found = []
        for _ in range(5):
            assert stackless.run(timeout) is victim
            found.append(turns["one"])
            victim.insert()
        kill(victim)
        return found

    first = turns_in(1000)
    assert turns_in(1000) == first
    steps = [after - before for before, after in itertools.pairwise(first)]
    assert max(steps) - min(steps) <= 1  # a turn may end in the middle of an iteration
    longer = turns_in(10_000)
    assert abs(longer[-1] - 10 * first[-1]) <= 50  # each of the five turns ends with an iteration


@pytest.mark.parametrize("timeout", range(1, 40))
def test_interruption_does_not_tear_a_statement(timeout):
    """As with threads, and in Stackless: it comes at calls, at jumps back and where functions begin."""
    counts = {"all": 0}

    def count():
        for _ in range(20):
            counts["all"] += 1

    counters = [stackless.tasklet(count)() for _ in range(2)]
    for _ in range(1000):
        interrupted = stackless.run(timeout)
        if interrupted is None:
            break
        interrupted.insert()
    assert counts == {"all": 40} and not any(each.alive for each in counters)


def test_calls_and_generators_are_interrupted_even_if_nothing_jumps_back():
    def deep(n):
        if n:
            return deep(n - 1)
        return "end"

    victim = stackless.tasklet(deep)(100)
    assert stackless.run(50) is victim
    victim.insert()
    assert stackless.run(50) is victim
    kill(victim)


def test_long_jump_back_is_seen():
    turns = []
    source = "while True:\n" + "    turn = 1\n" * 300 + "    turns.append\n"
    victim = stackless.tasklet(exec)(source, {"turns": turns})
    assert stackless.run(50) is victim
    kill(victim)


def test_all_get_their_turns():
    turns = {}
    hogs = [stackless.tasklet(hog)(turns, name) for name in range(5)]
    for _ in range(50):
        interrupted = stackless.run(500)
        interrupted.insert()
    assert len(turns) == 5 and max(turns.values()) - min(turns.values()) < 60
    kill(*hogs)


def test_tasklet_that_gives_way_in_time_is_not_interrupted():
    def polite(n):
        for _ in range(n):
            stackless.schedule()

    for count in (1, 3):
        for _ in range(count):
            stackless.tasklet(polite)(200)
        assert stackless.run(200) is None


def test_the_total_of_all_turns():
    def polite():
        while True:
            stackless.schedule()

    tasklets = [stackless.tasklet(polite)() for _ in range(2)]
    assert stackless.run(2000, totaltimeout=True) in tasklets
    kill(*tasklets)


def test_soft_waits_for_the_next_switch():
    steps = []

    def slow():
        for number in range(1000):
            steps.append(number)
        stackless.schedule()
        steps.append("after")

    victim = stackless.tasklet(slow)()
    assert stackless.run(100, soft=True) is None
    assert len(steps) == 1000 and victim.scheduled and not victim.paused
    stackless.run()
    assert steps[-1] == "after"


def test_an_atomic_tasklet_is_interrupted_at_its_end():
    steps = []

    def work():
        with stackless.atomic():
            for number in range(1000):
                steps.append(number)
            steps.append("end")
        while True:
            pass

    victim = stackless.tasklet(work)()
    assert stackless.run(100) is victim and steps[-1] == "end"
    kill(victim)


def test_an_interrupted_tasklet_can_be_killed_where_it_stands():
    seen = []

    def work():
        try:
            while True:
                pass
        except ValueError as error:
            seen.append(error.args)
        finally:
            seen.append("finally")

    victim = stackless.tasklet(work)()
    assert stackless.run(200) is victim
    victim.throw(ValueError, "now")
    assert seen == [("now",), "finally"] and not victim.alive


def test_exceptions_are_raised_by_run_and_counting_ends():
    def fail():
        raise LookupError("mine")

    stackless.tasklet(fail)()
    with pytest.raises(LookupError):
        stackless.run(100)
    assert sys.gettrace() is None

    def long():
        return sum(range(10)) + len(list(range(5000)))

    assert long() == 5045  # the main tasklet is not counted any more


def test_frames_that_were_there_before_are_counted():
    turns = []

    def inner():
        stackless.schedule()
        while True:
            turns.append(1)

    victim = stackless.tasklet(inner)()
    stackless.schedule()  # it stands in a frame that nobody traces
    assert stackless.run(500) is victim and turns
    kill(victim)


def test_a_run_within_one_that_has_a_limit_has_none_of_its_own():
    turns, inner = {}, []

    def manager():
        inner.append(stackless.tasklet(hog)(turns, "inner"))
        assert stackless.get_thread_info(-1, 1 << 31)[3] == [stackless.main, stackless.main]
        stackless.run(300)
        turns["outer"] = True

    outer = stackless.tasklet(manager)()
    assert stackless.run(3000) is inner[0]  # although it has had more than 300
    assert outer.scheduled and not turns.get("outer")  # it goes on, because the run() around its own is over
    inner[0].kill()
    kill(outer)
    assert stackless.get_thread_info(-1, 1 << 31)[3] == [None]


def test_in_another_thread_too():
    found = []

    def other():
        turns = {}
        victim = stackless.tasklet(hog)(turns)
        found.append(stackless.run(500) is victim)
        victim.kill()

    thread = threading.Thread(target=other)
    thread.start()
    syncless.run_in_thread(thread.join, 20)
    assert found == [True]


def test_recursion_and_generators_are_counted():
    def numbers():
        number = 0
        while True:
            yield number
            number += 1

    def deep(n):
        if n:
            return deep(n - 1)
        for _ in numbers():
            pass
        return None

    victim = stackless.tasklet(deep)(50)
    assert stackless.run(2000) is victim
    kill(victim)


def test_sleeping_tasklet_goes_on_meanwhile():
    seen, turns = [], {}

    def sleeper():
        syncless.sleep(0.01)
        seen.append("slept")

    stackless.tasklet(sleeper)()
    stackless.tasklet(hog)(turns)
    victim = None
    for _ in range(10_000):
        victim = stackless.run(2000)
        if seen:
            break
        victim.insert()
    assert seen == ["slept"]
    kill(victim)


def test_run_refuses_a_negative_limit_and_may_wait_for_threads():
    with pytest.raises(ValueError):
        stackless.run(-1)
    channel = stackless.channel()
    received = []
    stackless.tasklet(lambda: received.append(channel.receive()))()

    def send():
        channel.send("from a thread")

    threading.Timer(0.05, send).start()
    stackless.run(threadblock=True)
    assert received == ["from a thread"]


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="counting and debuggers have tools of their own since 3.12"
)
def test_under_a_debugger_it_says_so_and_leaves_no_trace():
    sys.settrace(lambda *_: None)
    try:
        with pytest.raises(RuntimeError, match="debugger"):
            stackless.run(100)
    finally:
        sys.settrace(None)
    turns = {}
    victim = stackless.tasklet(hog)(turns)
    assert stackless.run(100) is victim
    kill(victim)
    stackless.run()  # it would go on in the run() that failed
