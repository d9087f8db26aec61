"""spawn_in: a tasklet in another thread's loop."""

import threading

import pytest

import syncless
from syncless import (
    Event,
    run_in_thread,
    sleep,
)

pytestmark = pytest.mark.virtual_time


def test_spawn_in_another_thread():
    ready, end, loops = Event(), Event(), []

    def live():
        loops.append(syncless.current_loop())
        ready.set()
        end.wait()

    thread = threading.Thread(target=live)
    thread.start()
    ready.wait()
    there = syncless.spawn_in(loops[0], lambda more: (sleep(0.001), threading.get_ident() + more)[1], 0)
    assert there.result(5) == thread.ident != threading.get_ident()
    for where in (thread, thread.ident):
        assert syncless.spawn_in(where, threading.get_ident).result(5) == thread.ident
    failed = syncless.spawn_in(loops[0], syncless.Channel().receive)
    assert failed.kill(timeout=5)
    end.set()
    run_in_thread(thread.join)
    with pytest.raises(RuntimeError, match="has ended"):
        syncless.spawn_in(loops[0], sleep)
    for where in (thread, thread.ident, threading.Thread()):
        with pytest.raises(LookupError):
            syncless.spawn_in(where, sleep)
    with pytest.raises(TypeError, match="not str"):
        syncless.spawn_in("a thread", sleep)
    with pytest.raises(TypeError):
        syncless.spawn_in(syncless.current_loop(), 5)
