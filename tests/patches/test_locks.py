"""The interpreter's locks under the patch, when a waiter does not live to take one."""

import pytest

from tests.programs import check


@pytest.mark.parametrize("make", ["threading.Lock", "threading.RLock"])
def test_killed_waiter_passes_the_lock_on(make):
    check(
        """
    import sys, syncless, threading
    lock, took = eval(sys.argv[1])(), []
    def wait(name):
        with lock:
            took.append(name)
    lock.acquire()
    first, second, third = (syncless.spawn(wait, name) for name in ("first", "second", "third"))
    syncless.sleep(0)
    lock.release()
    first.kill()                # its turn had come
    assert second.join(timeout=60) and third.join(timeout=60), "the lock is free, and nobody is told"
    assert took == ["second", "third"] and lock.acquire(False)
    """,
        make,
    )


@pytest.mark.parametrize("make", ["threading.Lock", "threading.RLock", "threading.Condition"])
def test_waiter_gets_a_lock_that_another_takes_again_and_again(make):
    check(
        """
    import sys, threading, time
    lock, rounds, over = eval(sys.argv[1])(), [], []

    def worker():
        while not over and len(rounds) < 100:
            with lock:
                rounds.append(time.sleep(0))    # others run while it has the lock

    thread = threading.Thread(target=worker)
    thread.start()
    while not rounds:
        time.sleep(0)
    before = len(rounds)
    for _ in range(3):
        with lock:
            pass
    over.append(len(rounds) - before)
    thread.join()
    assert over[0] < 10, f"it waited while another took the lock {over[0]} times"
    """,
        make,
    )


def test_interrupt_is_not_raised_where_a_free_lock_is_left_to_its_waiters():
    check(
        """
    import syncless, threading
    lock, given_back = threading.Lock(), []
    lock.acquire()
    waiter = syncless.spawn(lambda: lock.acquire() and lock.release())
    syncless.sleep(0)

    def clean_up():
        try:
            syncless.sleep(60)
        except syncless.TaskletExit:
            lock.release()              # the waiter is about to take it
            syncless.spawn(me.kill, block=False)
            with lock:
                given_back.append(1)
            syncless.sleep(60)

    me = syncless.spawn(clean_up)
    syncless.sleep(0)
    me.kill()
    assert given_back == [1] and waiter.done()
    """
    )


@pytest.mark.parametrize("make", ["threading.Lock", "threading.RLock"])
def test_request_that_waits_for_a_lock_knows_who_held_it(make):
    check(
        """
    import sys, syncless, threading
    from urllib.request import urlopen
    from syncless.debug import longest_waits
    from syncless.wsgi import Server

    lock, told = eval(sys.argv[1])(), {}
    held, begun, over = syncless.Event(), syncless.Event(), syncless.Event()

    def wait(name):
        if name == "/first":
            with lock:
                held.set()
                over.wait()
                begun.wait()
                syncless.sleep(0.05)        # the second one waits
        elif name == "/second":
            begun.set()
            with lock:
                pass
        else:
            with syncless.Timeout(0.05, False):
                with lock:
                    pass
            over.set()

    def application(environ, start_response):
        name = environ["PATH_INFO"]
        wait(name)
        told[name] = [one.what for one in longest_waits(syncless.current())]
        start_response("200 OK", [])
        return [b""]

    with Server(application, port=0) as server:
        ask = lambda path: urlopen(server.url + path).read()
        first = syncless.spawn(ask, "first")
        held.wait()
        for one in [first, syncless.spawn(ask, "second"), syncless.spawn(ask, "third")]:
            one.join()
    held_by = "lock: held by GET /first"
    assert not any("held by" in what for what in told["/first"]), told
    assert told["/second"] == told["/third"] == [held_by], told
    """,
        make,
    )


@pytest.mark.parametrize(
    ("make", "inner", "give", "is_given"),
    [
        ("held(_get_module_lock('module'))", "lock", "release", "not thing.count"),
        ("held(threading.Semaphore())", "_cond", "release", "thing.acquire(False)"),
        ("held(threading.BoundedSemaphore())", "_cond", "release", "thing.acquire(False)"),
        ("filled(queue.Queue())", "mutex", "task_done", "thing.unfinished_tasks == 0"),
    ],
)
def test_killed_holder_gives_back_what_needs_a_lock_to_be_given_back(make, inner, give, is_given):
    """A module above all: nobody could import it any more."""
    check(
        """
    import queue, sys, syncless, threading
    from importlib._bootstrap import _get_module_lock
    make, inner, give, is_given = sys.argv[1:]

    def held(thing):
        thing.acquire()
        return thing

    def filled(thing):
        thing.put(1)
        return thing

    def hold():
        global thing
        thing = eval(make)
        ready.set()
        syncless.sleep(0.001)
        getattr(thing, give)()

    ready = syncless.Event()
    holder = syncless.spawn(hold)
    ready.wait()
    with getattr(thing, inner):
        while "waiting for lock" not in str(holder):
            syncless.sleep(0.001)
        holder.kill(block=False)
        syncless.sleep(0)
    assert holder.join(timeout=60) and eval(is_given)
    """,
        make,
        inner,
        give,
        is_given,
    )
