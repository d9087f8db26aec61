"""gevent's hub in our loop: tasklets and gevent's greenlets run beside each other in one thread."""

import subprocess
import sys
import textwrap

import pytest

from tests.programs import run_unchecked

pytest.importorskip("gevent", reason="runs gevent's hub: pip install gevent")

BEGIN = """
import os, sys, syncless
{patch}
import syncless.contrib.gevent
syncless.contrib.gevent.install()
import gevent, gevent.event, gevent.pool, gevent.queue, gevent.server, gevent.socket, gevent.subprocess
turns = []
def takes_turns():
    while True:
        turns.append(1)
        syncless.sleep(0.001)
syncless.spawn(takes_turns)
def square(number):
    before = len(turns)
    while len(turns) < before + 2:
        gevent.sleep(0.001)
    return number * number
"""
PATCH = "import syncless.patches; syncless.patches.patch_all()"


def run(program, patch=""):
    """The ended process."""
    program = BEGIN.format(patch=patch) + program
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-X", "faulthandler", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def check(program, patch=""):
    done = run(textwrap.dedent(program) + "\nprint('to the end')", patch)
    assert done.stdout == "to the end\n" and not done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("patch", ["", PATCH], ids=["unpatched", "patched"])
def test_tasklets_run_while_greenlets_wait_and_wait_for_greenlets(patch):
    check(
        """
        squares = gevent.joinall([gevent.spawn(square, each) for each in range(4)])
        assert sorted(one.value for one in squares) == [0, 1, 4, 9]
        asking = [syncless.spawn(lambda each: gevent.spawn(square, each).get(), each) for each in range(4)]
        assert [one.result() for one in asking] == [0, 1, 4, 9]
        assert syncless.spawn(gevent.pool.Pool(2).map, square, range(4)).result() == [0, 1, 4, 9]
        event, queue = gevent.event.Event(), gevent.queue.Queue()
        waiting = [syncless.spawn(event.wait), syncless.spawn(queue.get)]
        syncless.sleep(0)
        event.set()
        gevent.spawn(queue.put, 5)
        assert [one.result() for one in waiting] == [True, 5]
        assert gevent.get_hub().threadpool.apply(square, (3,)) == 9
        """,
        patch,
    )


def test_greenlet_started_by_a_tasklet_that_waits_elsewhere_runs():
    check("""
        begun, later = syncless.Event(), syncless.Event()
        gevent.spawn(begun.set)
        gevent.spawn_later(0.001, later.set)
        assert begun.wait(60) and later.wait(60)
    """)


def test_killed_tasklet_leaves_gevents_wait():
    check("""
        left = []
        def waits():
            try:
                gevent.sleep(1000)
            finally:
                left.append(True)
        waiting = syncless.spawn(waits)
        syncless.sleep(0.01)
        waiting.kill()
        assert left == [True] and waiting.done()
        assert gevent.spawn(square, 2).get() == 4
    """)


def test_timeouts_of_both_kinds_end_waits_of_both_kinds():
    check("""
        def ends(sleep, timeout):
            me = syncless.current()
            try:
                with timeout(0.01):
                    sleep(1000)
            except timeout:
                return syncless.current() is me
        waiting = [syncless.spawn(ends, sleep, timeout)
            for sleep in (gevent.sleep, syncless.sleep) for timeout in (gevent.Timeout, syncless.Timeout)]
        assert [one.result(60) for one in waiting] == [True] * 4
        assert gevent.spawn(square, 2).get() == 4
    """)


def test_sockets_and_servers_of_gevent_serve_tasklets():
    check("""
        def answers(client, address):
            client.sendall(client.recv(100).upper())
            client.close()
        server = gevent.server.StreamServer(("127.0.0.1", 0), answers)
        server.start()
        def asks(number):
            peer = gevent.socket.create_connection(("127.0.0.1", server.server_port))
            peer.sendall(b"tasklet %d" % number)
            return peer.recv(100)
        asking = [syncless.spawn(asks, number) for number in range(10)]
        assert [one.result() for one in asking] == [b"TASKLET %d" % number for number in range(10)]
        server.stop()
    """)


def test_watcher_keeps_its_descriptor_until_that_is_closed():
    check("""
        reading, writing = os.pipe()
        watcher, calls = gevent.get_hub().loop.io(reading, 1), []
        def called():
            calls.append(1)
            if len(calls) == 1:
                os.close(reading)
        watcher.start(called)
        for name in ("fd", "events", "priority"):
            try:
                setattr(watcher, name, 2)
            except AttributeError as error:
                assert "of an active watcher cannot be changed" in str(error)
            else:
                raise AssertionError(name)
        os.write(writing, b"x")
        while watcher.active:
            gevent.sleep(0.001)
        assert len(calls) == 2
        watcher.fd, watcher.events, watcher.priority = writing, 2, 2
        assert (watcher.fd, watcher.events_str, watcher.priority) == (writing, "WRITE", 2)
        assert gevent.spawn(square, 2).get() == 4
    """)


def test_number_of_a_closed_descriptor_is_watched_anew():
    check("""
        kept = []
        for _ in range(3):
            pair = gevent.socket.socketpair()
            job = gevent.spawn(pair[0].recv, 1)
            gevent.sleep(0.001)
            pair[1].send(b"x")
            assert job.get(timeout=50) == b"x"
            os.close(pair[0].fileno())  # gevent hears nothing of it, and the next one has its number
            kept = kept + [pair]
    """)


def test_hubs_of_other_threads_wait_in_their_own_loops():
    check("""
        def in_thread(number):
            return gevent.spawn(lambda: (gevent.sleep(0.01), number)[1]).get()
        asking = [syncless.spawn(syncless.run_in_thread, in_thread, number) for number in range(3)]
        assert [one.result() for one in asking] == [0, 1, 2]
    """)


def test_wait_ends_when_gevent_has_nothing_to_do():
    check("""
        done = []
        gevent.spawn_later(0.01, done.append, 1)
        assert gevent.wait(timeout=60) and done == [1]
        gevent.spawn(gevent.sleep, 1000)
        assert not gevent.wait(timeout=0.01)
    """)


def test_values_of_a_queue_wake_as_many_greenlets():
    check("""
        for queue in (gevent.queue.Queue(), gevent.queue.SimpleQueue()):
            getting = [gevent.spawn(queue.get) for _ in range(4)]
            gevent.sleep(0.001)
            for number in range(4):
                queue.put(number)
                gevent.joinall(getting, count=number + 1, timeout=50)
            assert [one.value for one in getting] == [0, 1, 2, 3], getting
    """)


def test_main_greenlet_that_nothing_can_wake_gets_loop_exit():
    program = """
    import gevent, gevent.event
    from gevent.exceptions import LoopExit
    never = gevent.event.Event()
    for wait in (never.wait, gevent.get_hub().switch, lambda: gevent.spawn(never.wait).get()):
        with gevent.Timeout.start_new(50, ref=False):  # it does not count
            try:
                wait()
            except LoopExit:
                print("ends")
    """
    begin = "import syncless.contrib.gevent\nsyncless.contrib.gevent.install()\n"
    done = run_unchecked(begin + textwrap.dedent(program))
    assert done.stdout == "ends\n" * 3 and not done.stderr, done.stdout + done.stderr


def test_main_greenlet_waits_for_a_tasklet_that_can_wake_it():
    check("""
        event = gevent.event.Event()
        syncless.spawn(lambda: (syncless.sleep(0.01), event.set()))
        assert event.wait()
        syncless.spawn(lambda: (syncless.run_in_thread(lambda: None), event.set()))
        event.clear()
        assert event.wait()
    """)


def test_events_come_before_timers():
    check("""
        import gevent.select, gevent.selectors
        pairs = [gevent.socket.socketpair() for _ in range(3)]
        with gevent.selectors.GeventSelector() as selector:
            for mine, other in pairs:
                other.send(b"x")
                selector.register(mine, gevent.selectors.EVENT_READ)
            assert len(selector.select(0)) == 3
    """)


def test_waits_for_any_child():
    check("""
        import gevent.os
        child = gevent.os.fork_and_watch()
        if not child:
            gevent.sleep(0.05)
            os._exit(3)
        ended, status = gevent.os.waitpid(-1, 0)
        assert (ended, os.waitstatus_to_exitcode(status)) == (child, 3)
        polled = gevent.subprocess.Popen(["true"])
        while polled.poll() is None:
            pass
    """)


def test_child_of_a_fork_goes_on_after_reinit():
    check("""
        gevent.sleep(0.001)
        child = os.fork()
        if not child:
            gevent.reinit()
            os._exit(gevent.spawn(lambda: gevent.sleep(0.001) or 5).get())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    """)


def test_exit_of_a_greenlet_ends_the_program():
    done = run("gevent.spawn(sys.exit, 3)\nsyncless.sleep(20)")
    assert done.returncode == 3 and "Traceback" not in done.stderr, done.stderr


def test_hub_that_is_at_work_already_is_refused():
    program = "import gevent; gevent.sleep(0); import syncless.contrib.gevent as ours; ours.install()"
    done = run_unchecked(program)
    assert done.returncode == 1 and "call syncless.contrib.gevent.install() before" in done.stderr


def test_install_says_that_gevent_is_missing():
    done = run_unchecked(
        "import sys; sys.modules['gevent'] = None; import syncless.contrib.gevent as ours; ours.install()"
    )
    assert done.returncode == 1 and "gevent" in done.stderr.splitlines()[-1]


def test_neither_libuv_nor_cffi_is_used():
    check("""
        assert gevent.spawn(square, 2).get() == 4
        assert not {name for name in sys.modules if "libuv" in name or "cffi" in name}
    """)


# -- a program that knows only gevent, under `syncless run` --------------------------------------------------

UNCHANGED = """
import gevent.monkey
gevent.monkey.patch_all()
import gevent, gevent.event, gevent.lock, gevent.pool, gevent.queue
import queue, socket, sys, threading, time
"""


def check_unchanged(tmp_path, program, *options):
    path = tmp_path / "program.py"
    path.write_text(UNCHANGED + textwrap.dedent(program) + "\nprint('to the end')\n")
    command = [sys.executable, "-m", "syncless", "run", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "to the end\n" and not done.stderr, done.stdout + done.stderr


def test_greenlets_of_an_unchanged_program_wait_beside_each_other(tmp_path):
    check_unchanged(
        tmp_path,
        """
        # each waits for the one before it, by a call of another kind: one that blocked would stop all
        first, second = queue.Queue(), socket.socketpair()
        third, fourth = threading.Event(), gevent.event.Event()
        def a():
            return first.get()
        def b():
            first.put(1)
            return second[0].recv(1)
        def c():
            second[1].send(b"b")
            return third.wait()
        def d():
            third.set()
            return fourth.wait()
        def e():
            time.sleep(0.001)
            fourth.set()
        jobs = [gevent.spawn(each) for each in (a, b, c, d, e)]
        gevent.joinall(jobs, timeout=50)
        assert [job.value for job in jobs] == [1, b"b", True, True, None], jobs
        """,
    )


def test_what_blocks_gevent_lets_other_greenlets_run(tmp_path):
    check_unchanged(
        tmp_path,
        f"""
        import os, sqlite3
        os.chdir({str(tmp_path)!r})
        def writes():
            with sqlite3.connect("base", timeout=50) as base:
                base.execute("insert into numbers values (2)")
        def reads():
            with open("fifo") as file:
                return file.read()
        base = sqlite3.connect("base")
        base.execute("create table numbers (number)")
        os.mkfifo("fifo")
        base.execute("insert into numbers values (1)")  # it locks the file
        jobs = [gevent.spawn(writes), gevent.spawn(reads)]
        gevent.sleep(0.01)
        with open("fifo", "w") as file:
            file.write("read")
        base.commit()
        gevent.joinall(jobs, raise_error=True)
        assert jobs[1].value == "read"
        assert base.execute("select sum(number) from numbers").fetchone() == (3,)
        """,
    )


def test_patched_call_of_a_greenlet_is_interrupted_as_gevents_are(tmp_path):
    check_unchanged(
        tmp_path,
        """
        pair = socket.socketpair()
        waits = {
            "sleep": lambda: time.sleep(1000),
            "queue": queue.Queue().get,
            "socket": lambda: pair[0].recv(1),
            "event": threading.Event().wait,
            "join": lambda: threading.Thread(target=time.sleep, args=(0.2,)).run() or time.sleep(1000),
        }
        for name, wait in waits.items():
            job = gevent.spawn(wait)
            gevent.sleep(0.001)
            job.kill(timeout=20)
            assert job.dead and isinstance(job.value, gevent.GreenletExit), name
            with gevent.Timeout(0.01, False):
                wait()
                raise AssertionError(name)
        jobs = [gevent.spawn(time.sleep, 1000) for _ in range(3)]
        gevent.sleep(0.001)
        gevent.killall(jobs, timeout=20)
        assert all(job.dead for job in jobs)
        """,
    )


def test_greenlet_that_is_killed_before_its_first_turn_never_runs(tmp_path):
    check_unchanged(
        tmp_path,
        """
        ran = []
        jobs = [gevent.spawn(ran.append, 1), gevent.spawn_later(0.001, ran.append, 2)]
        jobs[0].kill()
        jobs[1].kill()
        gevent.sleep(0.01)
        assert not ran and all(job.dead for job in jobs)
        """,
    )


def test_error_of_a_greenlet_reaches_the_hub(tmp_path):
    check_unchanged(
        tmp_path,
        """
        told = []
        gevent.get_hub().handle_error = lambda context, kind, value, tb: told.append((context, value))
        job, raw = gevent.spawn(lambda: 1 / 0), gevent.spawn_raw(lambda: [][1])
        while len(told) < 2:
            gevent.sleep(0.001)
        errors = dict(told)
        assert isinstance(errors[raw], IndexError)
        assert isinstance(errors[job], ZeroDivisionError) and job.exception is errors[job]
        """,
    )


def test_order_of_greenlets_is_gevents(tmp_path):
    check_unchanged(
        tmp_path,
        """
        order = []
        def turns(name):
            for number in range(3):
                order.append(f"{name}{number}")
                gevent.sleep(0)
        gevent.joinall([gevent.spawn(turns, name) for name in "abc"])
        assert order == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"], order
        for _ in range(20):  # a timer that begins after a greenlet is not before it
            ran = []
            gevent.sleep(0)
            busy_until = time.perf_counter() + 0.0005  # the loop looks for events after that
            while time.perf_counter() < busy_until:
                pass
            gevent.spawn(ran.append, 1)
            gevent.sleep(1e-6)
            assert ran
        """,
    )


def test_greenlets_share_a_hub_with_threads_and_signals_with_the_main_thread(tmp_path):
    check_unchanged(
        tmp_path,
        """
        hubs, done = set(), gevent.event.AsyncResult()
        def in_thread():
            hubs.add(gevent.get_hub())
            done.set(gevent.spawn(lambda: gevent.get_hub()).get())
        threading.Thread(target=in_thread).start()
        hubs |= {done.get(), gevent.get_hub()}
        assert len(hubs) == 1
        lock = gevent.lock.RLock()
        with lock:
            other = threading.Thread(target=lambda: hubs.add(lock.acquire(blocking=False)))
            other.start()
            other.join()
        assert False in hubs
        import signal
        handled = gevent.event.AsyncResult()
        before = gevent.spawn(signal.signal, signal.SIGUSR1, signal.SIG_IGN).get()
        gevent.get_hub().loop.run_callback(lambda: handled.set(signal.signal(signal.SIGUSR1, before)))
        assert handled.get() == signal.SIG_IGN
        """,
    )


def test_gevents_names_tell_of_our_patch(tmp_path):
    check_unchanged(
        tmp_path,
        """
        from gevent import monkey
        import _thread
        assert monkey.is_module_patched("socket") and monkey.is_module_patched("threading")
        assert not monkey.is_module_patched("json")
        ident, sleep = monkey.get_original("_thread", ["get_ident", "start_new_thread"])
        seen = []
        gevent.spawn(lambda: seen.append((ident(), threading.get_ident()))).join()
        threading.Thread(target=lambda: seen.append((ident(), threading.get_ident()))).run()
        assert seen[0][0] == seen[1][0] == ident()
        """,
    )
