"""Interrupts at locks that clean-up code needs."""

import contextlib
import textwrap
import threading
import time

import pytest

import syncless
from syncless._core.cleanup import in_clean_up
from tests.programs import check

pytestmark = pytest.mark.virtual_time


class Asks:
    def __init__(self, told):
        self.told = told

    def __enter__(self):
        self.told.append("in" if in_clean_up() else "out")

    def __exit__(self, *error):
        self.told.append("in" if in_clean_up() else "out")


SOURCES = {
    "plain": ("ask()", "out"),
    "with": ("with Asks(told): ask()", "out out in"),
    "try": ("try:\n  ask()\nfinally:\n  pass", "out"),
    "finally": ("try:\n  pass\nfinally:\n  ask()", "in"),
    "finally after return": ("try:\n  return\nfinally:\n  ask()", "in"),
    "finally after an error": ("try:\n  1 / 0\nfinally:\n  ask()", "in"),
    "finally in a loop": (
        "while True:\n  ask()\n  try:\n    break\n  finally:\n    for _ in range(2):\n      ask()",
        "out in in",
    ),
    "finally in finally": (
        "try:\n  ask()\nfinally:\n  try:\n    ask()\n  finally:\n    ask()\nask()",
        "out in in out",
    ),
    "with in finally": ("try:\n  ask()\nfinally:\n  with Asks(told): ask()\nask()", "out in in in out"),
    "try in finally": (
        "try:\n  pass\nfinally:\n  try: 1 / 0\n  except ValueError: pass\n  except ArithmeticError: ask()",
        "in",
    ),
    "except": ("try:\n  ask()\n  1 / 0\nexcept ArithmeticError:\n  ask()\nask()", "out out out"),
    "except and return": ("try:\n  1 / 0\nexcept ArithmeticError:\n  return ask()\nelse:\n  ask()", "out"),
    "except a timeout": ("try:\n  raise Timeout\nexcept Timeout:\n  ask()\nask()", "in out"),
    "else": (
        "try:\n  pass\nexcept ValueError:\n  ask()\nelse:\n  ask()\nfinally:\n  ask()\nask()",
        "out in out",
    ),
    "all": ("try:\n  1 / 0\nexcept ArithmeticError:\n  ask()\nfinally:\n  ask()", "out in"),
    "while": (
        "n = 0\nwhile ask() or n < 2:\n  n += 1\n  try: continue\n  except ValueError: pass",
        "out out out",
    ),
    "callee": ("def give_back(): ask()\ntry:\n  give_back()\nfinally:\n  give_back()", "out in"),
    "generator": (
        "@contextlib.contextmanager\ndef f():\n  ask()\n  try: yield\n  finally: ask()\nwith f(): ask()",
        "out out in",
    ),
    "finaliser": ("class A:\n  def __del__(self): ask()\nA()", "in"),
    "await": ("async def f():\n  async with B():\n    ask()\nf().send(None)", "out out in"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_clean_up_code_is_known(name):
    source, expected = SOURCES[name]
    told = []

    class B(Asks):
        def __init__(self):
            self.told = told

        async def __aenter__(self):
            self.__enter__()

        async def __aexit__(self, *error):
            told.append("in" if in_clean_up() else "out")

    def ask():
        told.append("in" if in_clean_up() else "out")

    names = {
        "ask": ask,
        "told": told,
        "Asks": Asks,
        "B": B,
        "Timeout": syncless.Timeout,
        "contextlib": contextlib,
    }
    exec("def function():\n" + textwrap.indent(source, "  "), names)

    def run():  # in a tasklet, where no frame of pytest's is above
        with contextlib.suppress(ArithmeticError, StopIteration):
            names["function"]()

    syncless.spawn(run).result()
    assert told == expected.split()


class Pool:
    """A pool of one connection, whose lock somebody holds for a while after each use."""

    def __init__(self, lock):
        self.lock = lock
        self.free = ["connection"]
        self.taken = []

    def release(self, connection):
        with self.lock:
            self.taken.remove(connection)
            self.free.append(connection)

    def use(self, seconds):
        with self.lock:
            connection = self.free.pop()
            self.taken.append(connection)
        try:
            syncless.sleep(seconds)
        finally:
            self.release(connection)

    def hold(self, begin, end):
        syncless.sleep(begin)
        with self.lock:
            syncless.sleep(end - begin)


def now():
    return time.monotonic() - now.start


@pytest.fixture(params=["Lock", "RLock", "threading.Lock", "threading.RLock", "threading.Condition"])
def pool(request):
    from syncless.patches import patched

    module, _, name = request.param.rpartition(".")
    now.start = time.monotonic()
    with patched(thread=True) if module else contextlib.nullcontext():
        made = Pool(getattr(threading if module else syncless, name)())
        made.another = lambda: Pool(getattr(threading if module else syncless, name)())
        yield made


def test_timeout_that_rings_in_clean_up_code_waits_for_its_lock(pool):
    """No exception has led there."""
    syncless.spawn(pool.hold, 0.5, 1.5)
    with syncless.Timeout(1.2):  # at the lock since 1.0
        pool.use(1)
    assert now() == pytest.approx(1.5) and pool.free and not pool.taken


def test_it_is_raised_at_the_next_wait(pool):
    syncless.spawn(pool.hold, 0.5, 1.5)
    with pytest.raises(syncless.Timeout), syncless.Timeout(1.2):
        pool.use(1)
        syncless.sleep(100)
    assert now() == pytest.approx(1.5) and not pool.taken


def test_second_interrupt_waits_for_the_lock_of_the_first(pool):
    syncless.spawn(pool.hold, 0.5, 1.5)
    with pytest.raises(TimeoutError), syncless.deadline(1.2):
        with pytest.raises(syncless.Timeout), syncless.Timeout(1):
            pool.use(10)
        assert now() == pytest.approx(1.5) and not pool.taken
        syncless.sleep(100)
    assert now() == pytest.approx(1.5)


def test_kill_waits_too_and_ends_the_tasklet_afterwards(pool):
    went_on = []

    def body():
        pool.use(1)
        went_on.append(syncless.sleep(100))

    syncless.spawn(pool.hold, 0.5, 1.5)
    tasklet = syncless.spawn(body)
    syncless.sleep(1.2)
    tasklet.kill()
    assert now() == pytest.approx(1.5) and not pool.taken and not went_on


def test_patience_ends_after_a_second(pool):
    holder = syncless.spawn(pool.hold, 0.5, 60)
    with pytest.raises(syncless.Timeout), syncless.Timeout(1.2):
        pool.use(1)
    assert now() == pytest.approx(2.2) and pool.taken
    holder.kill()


def test_all_locks_of_a_clean_up_share_one_second(pool):
    others = [pool.another(), pool.another()]
    ends = zip([pool, *others], [1.8, 2.1, 60], strict=True)
    holders = [syncless.spawn(each.hold, 0.5, end) for each, end in ends]
    with pytest.raises(syncless.Timeout), syncless.Timeout(1.2):
        try:
            syncless.sleep(1)
        finally:
            for each in (pool, *others):
                with each.lock:
                    pass
    assert now() == pytest.approx(2.2)
    syncless.sleep(0)
    holders[-1].kill()


def test_interrupt_comes_in_time_at_any_other_lock(pool):
    holder = syncless.spawn(pool.hold, 0.5, 60)
    syncless.sleep(1)
    with pytest.raises(syncless.Timeout), syncless.Timeout(0.2), pool.lock:
        pass
    assert now() == pytest.approx(1.2)
    with pytest.raises(TimeoutError), syncless.deadline(0.2):
        pool.lock.acquire()
    assert now() == pytest.approx(1.4)
    try:
        raise KeyError
    except KeyError:
        with pytest.raises(syncless.Timeout), syncless.Timeout(0.2):
            pool.lock.acquire()
    assert now() == pytest.approx(1.6)
    holder.kill()


def test_other_waits_of_clean_up_code_are_interrupted(pool):
    with pytest.raises(syncless.Timeout), syncless.Timeout(1):
        try:
            pass
        finally:
            syncless.Event().wait()
    assert now() == pytest.approx(1)


def test_limit_of_the_acquisition_itself_holds(pool):
    if isinstance(pool.lock, threading.Condition):
        pytest.skip("has none")
    holder = syncless.spawn(pool.hold, 0.5, 60)
    with syncless.Timeout(1.2):
        try:
            syncless.sleep(1)
        finally:
            assert not pool.lock.acquire(timeout=0.5)
    assert now() == pytest.approx(1.5)
    holder.kill()


def test_killed_tasklet_whose_function_is_in_c_leaves_the_lock(pool):
    with pool.lock:
        tasklet = syncless.spawn(pool.lock.acquire if hasattr(pool.lock, "acquire") else pool.lock.__enter__)
        syncless.sleep(1)
        tasklet.kill()
        assert now() == pytest.approx(1)


def test_a_look_at_the_code_does_not_wait():
    """It imports a module, read by a thread. A killed waiter would forget that it was woken."""
    check("""
import syncless, sys, threading
assert "dis" not in sys.modules or sys.modules.pop("dis")
lock, took = threading.Lock(), []
def wait(name):
    with lock:
        took.append(name)
lock.acquire()
first, second = syncless.spawn(wait, "first"), syncless.spawn(wait, "second")
syncless.sleep(0)
lock.release()
first.kill()
assert second.join(timeout=60) and took == ["second"]
assert "dis" in sys.modules or sys.version_info < (3, 11)
""")


def test_ctrl_c_is_raised_at_once(pool):
    holder = syncless.spawn(pool.hold, 0.5, 60)
    main = syncless.current()
    syncless.spawn(lambda: (syncless.sleep(1.2), main.kill(KeyboardInterrupt, block=False)))
    with pytest.raises(KeyboardInterrupt):
        pool.use(1)
    assert now() == pytest.approx(1.2)
    holder.kill()


def test_storm_of_interrupts_leaves_no_connection_taken(pool):
    """Interrupts at any moment of many uses, whose clean-up stands in each other's way."""
    pool.free, cut = [str(number) for number in range(20)], []

    def client(number):
        for turn in range(30):
            try:
                with syncless.Timeout((number * 7 + turn * 3) % 23 / 100 + 0.001):
                    pool.use((number + turn) % 17 / 100)
            except syncless.Timeout:
                cut.append(number)

    def contend():
        while True:
            with pool.lock:
                syncless.sleep(0.003)
            syncless.sleep(0.001)

    contending = syncless.spawn(contend)
    for tasklet in [syncless.spawn(client, number) for number in range(20)]:
        tasklet.join()
    contending.kill()
    assert len(cut) > 50 and not pool.taken and len(pool.free) == 20
