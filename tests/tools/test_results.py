"""AsyncResult, and tasklets that are linked to functions, as gevent has them."""

import threading

import pytest

import syncless
from syncless import (
    AsyncResult,
    run_in_thread,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


def test_async_result(reports):
    result, told = AsyncResult(), []
    with pytest.raises(TimeoutError):
        result.get_nowait()
    with pytest.raises(TimeoutError):
        result.get(timeout=0.001)
    result.add_done_callback(told.append)
    removed = []
    result.add_done_callback(removed.append)
    assert (
        result.remove_done_callback(removed.append) == 1 and result.remove_done_callback(removed.append) == 0
    )
    waits = spawn(result.get)
    sleep(0)
    assert not result.ready() and not result.successful()
    result.set(5)
    assert (
        waits.result() == 5 == result.get() == result.value
        and told == [result]
        and not removed
        and result.successful()
        and result.wait()
    )
    with pytest.raises(RuntimeError):
        result.set(6)
    failed = AsyncResult()
    spawn(lambda: 1 / 0).add_done_callback(failed)
    with pytest.raises(ZeroDivisionError):
        failed.get()
    assert not failed.successful() and isinstance(failed.exception, ZeroDivisionError)
    with pytest.raises(TypeError):
        AsyncResult().set_exception("x")
    threaded = AsyncResult()
    thread = threading.Thread(target=threaded.set, args=("from a thread",))
    thread.start()
    assert threaded.get(timeout=5) == "from a thread"
    run_in_thread(thread.join)


def test_links():
    seen = []

    def note(kind):
        return lambda tasklet: seen.append((kind, tasklet.name))

    def fail():
        raise ValueError

    syncless.set_error_handler(lambda *_: None)
    try:
        for function, name in ((lambda: 1, "good"), (fail, "bad"), (lambda: sleep(9), "killed")):
            tasklet = spawn(function)
            tasklet.name = name
            tasklet.link(note("any"))
            tasklet.link_value(note("value"))
            tasklet.link_exception(note("exception"))
            dropped = note("dropped")
            tasklet.link_value(dropped)
            assert tasklet.unlink(dropped) == 1
            if name == "killed":
                sleep(0)
                tasklet.kill()
            tasklet.join()
            assert tasklet.successful() is (name == "good")
    finally:
        syncless.set_error_handler(None)
    assert seen == [
        ("any", "good"),
        ("value", "good"),
        ("any", "bad"),
        ("exception", "bad"),
        ("any", "killed"),
        ("exception", "killed"),
    ]
