"""The loop: fairness, time, threads, signals, fork; each backend alike."""

import contextlib
import gc
import itertools
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import greenlet
import pytest

import syncless
from syncless import Timeout, join_all, run_in_thread, sleep, spawn, wait_readable
from syncless._core.calls import threads
from syncless._core.current import give_way
from syncless._core.poll.backends import BACKENDS

pytestmark = pytest.mark.virtual_time


def run(program, *args, timeout=60, **options):
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(program), *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def test_idle_seconds_are_those_of_its_sleeps(in_backend):
    def body():
        loop = syncless.current_loop()
        before = loop.idle_seconds()
        for _ in range(3):
            time.sleep(0.25)  # code that holds the loop
            sleep(0)
            sleep(0.5)
        assert loop.idle_seconds() - before == pytest.approx(1.5, abs=0.01)

    in_backend(body)


@pytest.mark.virtual_time(False)  # another thread looks
def test_sleep_under_way_counts_as_idle(in_backend):
    def body():
        loop = syncless.current_loop()

        def look():
            before = loop.idle_seconds()
            while loop.idle_seconds() <= before:
                time.sleep(0.001)

        run_in_thread(look)  # without a deadline for the loop

    in_backend(body)


def test_yielding_does_not_starve_timers_or_descriptors(in_backend):
    def body():
        stop = []

        def busy():
            while not stop:
                time.sleep(0.0001)  # the time of a turn
                sleep(0)

        busy_ones = [spawn(busy) for _ in range(3)]
        reading, writing = os.pipe()
        readable = spawn(wait_readable, reading, 10)
        started = time.monotonic()
        sleep(0.02)
        assert 0.02 <= time.monotonic() - started < 0.022
        os.write(writing, b"x")
        assert readable.result() is True
        stop.append(1)
        syncless.join_all(busy_ones)
        os.close(reading)
        os.close(writing)

    in_backend(body)


def test_an_always_ready_socket_does_not_starve_others():
    from syncless.io import socket as cooperative

    a, b = cooperative.socketpair()
    with a, b:
        received = [0]

        def firehose():
            while True:
                time.sleep(0.0001)  # the time of a turn
                a.sendall(b"x" * 1000)

        def reader():
            while True:
                received[0] += len(b.recv(65536))

        tasklets = [spawn(firehose), spawn(reader)]
        started = time.monotonic()
        sleep(0.02)
        assert 0.02 <= time.monotonic() - started < 0.04 and received[0] > 0
        for tasklet in tasklets:
            tasklet.kill()


def test_giving_way_after_long_pieces_of_work_lets_timers_ring():
    """Half a millisecond a piece, as 200 MB are read: the loop looks for events after a few of them, not
    after forty."""
    pieces, rung = 0, []

    def tick():
        while True:
            sleep(0.0005)
            rung.append(pieces)

    ticker = spawn(tick)
    for pieces in range(1, 201):  # noqa: B007 (the ticker reads it)
        time.sleep(0.0005)
        give_way()
    ticker.kill()
    assert max(after - before for before, after in zip([0, *rung], [*rung, 200], strict=True)) <= 20


def test_threads_have_loops_of_their_own():
    def body():
        order = []
        tasklets = [spawn(lambda number=number: (sleep(0.001), order.append(number))) for number in range(3)]
        syncless.join_all(tasklets)
        return order, syncless.current_loop() is not main_loop, threading.get_ident()

    main_loop = syncless.current_loop()
    order, different, ident = run_in_thread(body)
    assert order == [0, 1, 2] and different and ident != threading.get_ident()


def test_a_tasklet_of_another_thread_can_be_joined_and_killed():
    holder, ready = [], syncless.Event()

    def body():
        tasklet = spawn(sleep, 60)
        holder.append(tasklet)
        ready.set()
        tasklet.join()
        return "ended"

    other = spawn(run_in_thread, body)
    ready.wait()
    assert holder[0].kill(timeout=10) is True
    assert other.result() == "ended"


def test_a_thread_that_ends_leaves_nothing_open():
    def body():
        spawn(sleep, 60)  # never runs again, as its thread ends
        sleep(0.001)

    def run_in_threads(count):
        for _ in range(count):
            thread = threading.Thread(target=body)
            thread.start()
            thread.join()

    def descriptors():
        """Without those of this listing, and of the virtual clock, which looks into /proc at any time."""
        found = {}
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):
                found[number] = os.readlink(f"/proc/self/fd/{number}")
        return {number: file for number, file in found.items() if not file.startswith("/proc/")}

    run_in_threads(1)
    gc.collect()  # the garbage of earlier tests must not be closed meanwhile
    before = descriptors()
    run_in_threads(20)
    assert descriptors() == before


def test_a_thread_that_ends_takes_its_loop_and_its_carriers_along():
    def body():
        loops.append(weakref.ref(syncless.current_loop()))
        syncless.join_all([spawn(sleep, 0.001) for _ in range(3)])

    def greenlets():
        gc.collect()
        return sum(isinstance(each, greenlet.greenlet) for each in gc.get_objects())

    loops, before = [], greenlets()
    for _ in range(20):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    end = time.monotonic() + 10  # a thread's own greenlet goes a moment after join() has returned
    while greenlets() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert greenlets() <= before
    assert [each() for each in loops] == [None] * 20


def test_run_in_thread_passes_results_errors_and_context():
    assert run_in_thread(lambda a, b=0: a + b, 1, b=2) == 3
    with pytest.raises(ZeroDivisionError):
        run_in_thread(lambda: 1 / 0)
    goes_on = threading.Event()

    def ticker():
        for _ in range(6):
            sleep(0.005)
        goes_on.set()

    ticking = spawn(ticker)
    assert run_in_thread(goes_on.wait, 30)  # while the thread waits, this one does not
    ticking.join()
    with Timeout(0.01, False):
        run_in_thread(time.sleep, 0.05)
    sleep(0.06)


@pytest.mark.parametrize("size", [1, 2])
def test_calls_given_while_threads_fall_idle(monkeypatch, size):
    """Threads end after a time in which calls come again: none is forgotten, and there are never too many
    threads."""
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.001)
    pool, chance, most = threads.ThreadPool(size), random.Random(size), 0

    def caller(number):
        nonlocal most
        for turn in range(500):
            with Timeout(20):
                assert pool.run(int, f"{number}{turn}") == int(f"{number}{turn}")
            most = max(most, pool._threads)
            sleep(chance.choice((0, 0.0005, chance.uniform(0.0008, 0.0013))))

    callers = [spawn(caller, number + 1) for number in range(3)]
    join_all(callers, timeout=60, raise_error=True)
    assert all(each.done() for each in callers) and most == size
    while pool._threads:  # each ends a millisecond later
        sleep(0.001)
    assert not pool._idle and not pool._backlog


def test_thread_that_the_system_refuses_raises(monkeypatch):
    def refuse(*args):
        raise RuntimeError("can't start new thread")

    pool, entered, leave = threads.ThreadPool(2), threading.Event(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threads, "start_os_thread", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            pool.run(int)
        assert not pool._threads and not pool._backlog
    first = spawn(pool.run, lambda: (entered.set(), leave.wait(20)))
    while not entered.is_set():
        sleep(0.001)
    with monkeypatch.context() as patch:
        patch.setattr(threads, "start_os_thread", refuse)
        second = spawn(pool.run, int, "7")
        sleep(0.01)
        assert not second.done() and pool._threads == 1
    leave.set()  # the one that there is takes it
    assert second.result(timeout=20) == 7 and first.result(timeout=20)


def test_interrupt_while_idle_and_while_busy():
    program = """
        import os, signal, syncless, threading
        def interrupt():
            os.kill(os.getpid(), signal.SIGINT)
        def busy():
            while True:
                syncless.sleep(0)
        for tasklets in ([], [busy, busy]):
            for function in tasklets:
                syncless.spawn(function)
            timer = threading.Timer(0.1, interrupt)
            timer.start()
            try:
                syncless.sleep(20)
            except KeyboardInterrupt:
                print("interrupted")
            timer.join()
    """
    done = run(program)
    assert done.stdout == "interrupted\ninterrupted\n", done.stderr


def test_a_signal_handler_runs_while_the_loop_is_idle():
    program = """
        import os, signal, syncless, threading
        event = syncless.Event()
        signal.signal(signal.SIGUSR1, lambda number, frame: event.set())
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        print(event.wait(20))
    """
    assert run(program).stdout == "True\n"


def test_fork_from_main_and_from_a_tasklet():
    program = """
        import os, sys, syncless
        def other():
            try:
                syncless.sleep(0.05)
                print("other", os.getpid() == parent)
            finally:
                print("other finally", os.getpid() == parent)
        parent = os.getpid()
        waiting = syncless.spawn(other)
        syncless.sleep(0)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            assert len(syncless.tasklets()) == 1
            syncless.sleep(0.1)
            print("child", syncless.spawn(int, "7").result())
            sys.stdout.flush()
            os._exit(3)
        print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        waiting.join()
        sys.stdout.flush()
        def forker():
            pid = os.fork()
            if pid == 0:
                syncless.sleep(0.01)
                print("tasklet child")
                return
            print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        syncless.spawn(forker).join()
    """
    done = run(program)
    assert done.stdout.splitlines() == [
        "child 7",
        "status 3",
        "other True",
        "other finally True",
        "tasklet child",
        "status 0",
    ], done.stderr


def test_backend_is_chosen_by_the_environment():
    environment = {**os.environ, "SYNCLESS_LOOP": "nonsense"}
    done = run("import syncless; syncless.sleep(0)", env=environment)
    assert done.returncode == 1 and f"this system has {', '.join(BACKENDS)}" in done.stderr


def test_select_refuses_high_descriptors():
    program = """
        import os, resource, syncless
        resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
        reading, writing = os.pipe()
        os.dup2(reading, 1500)
        try:
            syncless.wait_readable(1500, 1)
        except OSError as error:
            print(error)
    """
    done = run(program, env={**os.environ, "SYNCLESS_LOOP": "select"})
    assert "below 1024" in done.stdout and "SYNCLESS_LOOP=poll" in done.stdout


def test_timeout_class():
    with pytest.raises(Timeout, match=r"0.001 seconds"), Timeout(0.001):
        sleep(5)
    with Timeout(0.001, False):
        sleep(5)
    with pytest.raises(KeyError), Timeout(0.001, KeyError("slow")):
        sleep(5)
    with Timeout(None):
        sleep(0)
    timeout = Timeout.start_new(5)
    assert timeout.pending
    timeout.cancel()
    assert not timeout.pending


def test_timeouts_nest():
    seen = []
    with Timeout(5):
        try:
            with Timeout(0.001):
                sleep(1)
        except Timeout as inner:
            seen.append(inner.seconds)
        sleep(0)
    assert seen == [0.001]


def test_equal_deadlines_fire_in_the_order_of_their_setting():
    seen = []
    tasklets = []
    for number in range(300):
        tasklets.append(spawn(lambda number=number: (sleep(0.01), seen.append(number))))
    syncless.join_all(tasklets)
    assert seen == list(range(300))


def test_cancelled_deadlines_leave_the_heap():
    event = syncless.Event()
    before = syncless.current_loop().census()["timers"]
    waiters = [spawn(event.wait, 1000 + number) for number in range(500)]
    sleep(0)
    assert syncless.current_loop().census()["timers"] == before + 500
    for waiter in waiters[::2]:
        waiter.kill()
    event.set()
    syncless.join_all(waiters)
    assert syncless.current_loop().census()["timers"] == before


def wait_at_once(tasklets):
    event = syncless.Event()
    waiting = [spawn(event.wait) for _ in range(tasklets)]
    sleep(0.001)  # the loop looks at how many there are
    event.set()
    syncless.join_all(waiting)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 frames are not in blocks")
def test_frame_blocks_are_kept():
    from syncless._core.cpython import chunkcache

    wait_at_once(1000)
    for _ in range(2000):
        sleep(0.05)
    kept, reused = chunkcache.stats()
    assert kept > 0
    wait_at_once(1000)
    assert chunkcache.stats()[1] > reused
    program = "import syncless; from syncless._core.cpython import chunkcache; print(chunkcache.install())"
    assert run(program, env={**os.environ, "SYNCLESS_CHUNK_CACHE": "0"}).stdout == "False\n"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 frames are not in blocks")
def test_frame_blocks_of_a_burst_are_given_back():
    from syncless._core.cpython import chunkcache

    wait_at_once(3000)
    for _ in range(2000):
        sleep(0.05)
    # the loop looks at them whenever 500 carriers have ended
    assert chunkcache.stats()[0] < chunkcache.LIMIT + 500


def test_carriers_of_a_burst_are_kept_for_the_next_one_and_then_end():
    def carriers():
        loop = syncless.current_loop()
        return loop.census()["busy carriers"] + loop.idle_carriers

    wait_at_once(3600)  # a larger one whose second ends between the others
    for _ in range(20):
        sleep(0.049)
    wait_at_once(3000)
    sleep(0.05)
    first = carriers()
    wait_at_once(3000)
    sleep(0.05)
    assert 3000 <= carriers() <= first  # the larger burst's may have ended in between
    for _ in range(2000):
        sleep(0.05)
    assert carriers() < 100


def test_signals_are_never_overslept():
    """interrupt_main() notes a signal as the interpreter does when one comes just before the loop sleeps: no
    system call is interrupted.

    The second half takes the wake-up pipe away and shows that the signal is then slept through, unless
    something else interrupts the sleep, as a process that is stopped and goes on.
    """
    program = """
        import _thread, signal, threading, syncless
        event = syncless.Event()
        signal.signal(signal.SIGUSR1, lambda number, frame: event.set())
        def heard(seconds):
            event.clear()
            timer = threading.Timer(0.1, _thread.interrupt_main, (signal.SIGUSR1,))
            timer.start()
            with syncless.Timeout(seconds, False):
                return event.wait()
            return False
        print(heard(20), heard(20))
        signal.set_wakeup_fd(-1)
        print(all(heard(1) for _ in range(10)))
    """
    done = run(program)
    assert done.stdout == "True True\nFalse\n", done.stderr[-500:]


def test_events_that_take_long_do_not_starve_ready_tasklets():
    """A server that clients in another process keep busy, beside a tasklet that only yields."""
    from syncless.wsgi import Server

    def app(environ, start_response):
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
        start_response("200 OK", [])
        return [b""]

    clients = """
        import sys, syncless
        from syncless.io import socket
        answers = syncless.Semaphore(0)
        def ask():
            with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as sock:
                while True:
                    sock.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
                    assert sock.recv(1000)
                    answers.release()
        for _ in range(40):
            syncless.spawn(ask)
        for _ in range(1500): answers.acquire()
    """
    with Server(app, port=0) as server:
        asking = spawn(run_in_thread, run, clients, str(server.port))
        yields = []
        while not asking.done():
            sleep(0)
            if server.requests:
                yields.append(server.requests)
        # the longest row of requests answered between two turns of this tasklet: about the 40 that one poll
        # can bring
        assert server.requests >= 1500 and len(yields) > 20
        assert max(later - earlier for earlier, later in itertools.pairwise(yields)) < 200


@pytest.mark.skipif(not hasattr(sys, "remote_exec"), reason="sys.remote_exec() came with Python 3.14")
def test_script_of_a_debugger_runs_where_it_may_wait(tmp_path):
    (tmp_path / "script.py").write_text(
        f"import pathlib, syncless\nsyncless.sleep(0.001)\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    )
    # meanwhile no tasklet runs, so the loop is the first that could run it
    run_in_thread(sys.remote_exec, os.getpid(), str(tmp_path / "script.py"))
    assert (tmp_path / "ran").exists()
