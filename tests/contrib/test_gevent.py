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
import gevent, gevent.event, gevent.pool, gevent.queue, gevent.server, gevent.socket
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


@pytest.mark.parametrize(
    ("missing", "advice"),
    [
        ("_cffi_backend", "needs cffi, through which gevent calls libuv: pip install 'syncless[gevent]'"),
        ("gevent.libuv._corecffi", "needs a gevent with libuv"),
    ],
)
def test_error_says_what_is_missing_beside_gevent(missing, advice):
    program = f"import sys; sys.modules[{missing!r}] = None; import syncless.contrib.gevent"
    ended = run_unchecked(program)
    assert ended.stderr.splitlines()[-1].startswith("ImportError: syncless.contrib.gevent " + advice), (
        ended.stderr
    )
