"""local: values of each tasklet's own."""

import gc
import threading
import weakref

import pytest

import syncless
from syncless import (
    local,
    run_in_thread,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


def test_local_values_are_each_tasklets_own():
    class Counter(local):
        kind = "counter"

        def __init__(self, start):
            self.count = start

        @property
        def double(self):
            return 2 * self.count

    counter, plain = Counter(5), local()
    counter.count += 1
    plain.name = "main's"

    def other():
        assert counter.count == 5 and not hasattr(plain, "name")
        counter.count = plain.name = 7
        sleep(0)
        assert counter.__dict__ == {"count": 7} and plain.name == 7 and counter.double == 14
        del plain.name
        with pytest.raises(AttributeError, match="name"):
            del plain.name
        with pytest.raises(AttributeError, match="read-only"):
            plain.__dict__ = {}
        with pytest.raises(AttributeError):
            counter.double = 1
        return True

    assert spawn(other).result() is True
    assert counter.count == 6 and plain.name == "main's" and counter.kind == "counter"
    with pytest.raises(TypeError, match="arguments"):
        local(1)


def test_local_values_go_with_their_tasklet():
    class Value:
        pass

    values, gone = local(), []

    def run():
        values.mine = Value()
        values.tasklet = syncless.current()
        gone.append(weakref.ref(values.mine))

    spawn(run).join()
    assert gone[0]() is None
    thread = threading.Thread(target=run)  # in a thread's own main tasklet
    thread.start()
    run_in_thread(thread.join)
    gc.collect()
    assert gone[1]() is None


def test_local_that_goes_leaves_nothing_in_its_tasklets():
    def marks():
        return sum(type(each).__name__ == "_Forget" for each in gc.get_objects())

    before = marks()
    keeps = local()
    for _ in range(10):
        local().value = 1
    assert marks() == before + 1
    del keeps
    assert marks() == before
