"""Virtual time in one process: it stands still, and jumps where nothing can go on."""

import os

import pytest

from tests.programs import check


def test_clocks_agree_with_waits():
    check("""
    import datetime, queue, threading, time
    from time import monotonic
    from syncless.testing import virtual_time
    real = time.perf_counter()
    class Day(datetime.datetime): pass
    with virtual_time():
        began, wall, day = monotonic(), time.time(), Day.now()
        time.sleep(3600)
        assert monotonic() - began == time.time() - wall == 3600
        assert Day.now() - day == datetime.timedelta(hours=1) and type(Day.now()) is Day
        assert datetime.datetime.now(datetime.timezone.utc).timestamp() == time.time()
        assert datetime.datetime.utcnow() == datetime.datetime.fromtimestamp(
            time.time(), datetime.timezone.utc).replace(tzinfo=None)
        assert time.strftime("%c") == time.ctime() == datetime.datetime.now().strftime("%c")
        assert time.time_ns() == time.time() * 10**9 and time.gmtime() == time.gmtime(time.time())
        for wait in (
            lambda: threading.Event().wait(60),
            lambda: threading.Condition().acquire() and None,
        ):
            wait()
        try:
            queue.Queue().get(timeout=60)
        except queue.Empty:
            pass
        assert monotonic() - began == 3720
    assert time.perf_counter() - real < 3000 and abs(time.time() - wall) < 3000, "they are the system's"
    assert datetime.datetime.now() - day < datetime.timedelta(minutes=50)
    """)


def test_socket_timeouts_are_virtual_and_answers_come_before_them():
    check("""
    import socket, threading, time
    from syncless.testing import virtual_time
    with virtual_time():
        began = time.monotonic()
        one, two = socket.socketpair()
        one.settimeout(600)
        try:
            one.recv(1)
        except TimeoutError:
            pass
        assert 600 <= time.monotonic() - began < 600.1
        thread = threading.Thread(target=lambda: (time.sleep(30), two.sendall(b"x")))
        thread.start()
        assert one.recv(1) == b"x" and 630 <= time.monotonic() - began < 630.1
        thread.join()
        one.close()
        two.close()
    """)


def test_time_stands_still_during_a_call_in_another_thread():
    check("""
    import time
    import syncless
    from syncless._core.cpython.functions import original_of
    from syncless.testing import virtual_time
    really_sleep = original_of(time.sleep)
    with virtual_time():
        began = time.monotonic()
        late = syncless.spawn(syncless.sleep, 5)
        syncless.run_in_thread(really_sleep, 0.1)
        assert time.monotonic() == began and not late.done()
    late.kill()
    """)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="Linux tells what threads do")
def test_a_call_in_another_thread_that_computes_is_no_wait():
    """On a busy machine it takes long, too. One that waits for what another tasklet gives back is one."""
    check("""
    import _thread
    import time
    import syncless
    from syncless._core.cpython.functions import original_of
    held, spent = original_of(_thread.allocate_lock)(), original_of(time.thread_time)
    held.acquire()
    from syncless.patches import patch_all
    patch_all()
    from syncless.testing import virtualtime
    virtualtime.PATIENCE = 0.001
    def compute():
        while spent() < 0.05:
            pass
    for call, outside in (compute, set()), (lambda: held.acquire(timeout=20), {"calls in OS threads"}):
        clock = virtualtime.Clock()
        with virtualtime.clock_on(clock):
            other = syncless.spawn(held.release if outside else lambda: None)
            syncless.run_in_thread(call)
            assert other.done() is bool(outside) and clock.outside == outside, (call, clock.outside)
            other.join()
    """)


def test_other_threads_have_the_clock_of_the_system():
    """Their sleeps end, and those of the test take no time; a call for the test reads the test's clock."""
    check("""
    import _thread, time
    import syncless
    from syncless._core.cpython.functions import original_of
    from syncless.patches import patch_all
    patch_all()
    from syncless.testing import virtual_time
    took, ended = [], original_of(_thread.allocate_lock)()
    ended.acquire()
    def sleeps():
        before = time.monotonic(), time.time()
        time.sleep(0.001)
        took.append(min(time.monotonic() - before[0], time.time() - before[1]))
    with virtual_time():
        began = time.monotonic()
        original_of(_thread.start_new_thread)(lambda: sleeps() or ended.release(), ())
        syncless.run_in_thread(ended.acquire)
        assert 0.001 <= took[0] < 3600 and time.monotonic() == began
        syncless.run_in_thread(sleeps)
        assert took[1] == 0 and time.monotonic() == began
        time.sleep(3600)
        assert time.monotonic() == began + 3600
    """)


def test_advance_and_until_idle():
    check("""
    import time
    import syncless
    from syncless.testing import advance, until_idle, virtual_time
    seen = []
    def tick():
        while True:
            seen.append(time.monotonic() - began)
            syncless.sleep(10)
    with virtual_time():
        began = time.monotonic()
        ticks = syncless.spawn(tick)
        until_idle()
        assert [round(each, 3) for each in seen] == [0]
        advance(35)
        assert [round(each, 3) for each in seen] == [0, 10, 20, 30], seen
        ticks.kill()
    for call in until_idle, lambda: advance(1):
        try:
            call()
        except RuntimeError as error:
            assert "this needs virtual time" in str(error)
        else:
            raise AssertionError
    """)


def test_nothing_that_can_go_on_is_an_error():
    check("""
    import threading
    from syncless.debug import Deadlock
    from syncless.testing import virtual_time
    lock = threading.Lock()
    lock.acquire()
    with virtual_time():
        try:
            lock.acquire()
        except Deadlock as error:
            assert "nothing can go on" in str(error) and "main" in str(error)
        else:
            raise AssertionError
    """)
