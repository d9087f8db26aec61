"""threading.local and threading.get_ident() under the patch, in tasks of asyncio: each task has values of its
own, from its first step to its end, in whatever tasklets its steps are made."""

import sys

import pytest

from tests.programs import check

BEGIN = """
import asyncio, gc, threading, time, weakref
local = threading.local()
class Thing: pass
"""


def passes(program, **options):
    check(BEGIN + program, **options)


@pytest.mark.parametrize("debug", [False, True])
def test_task_keeps_its_values_over_awaits(debug):
    passes(f"""
class Counted(threading.local):
    made = 0
    def __init__(self):
        Counted.made += 1
        self.count = 0
counted = Counted()
async def one(number):
    assert not hasattr(local, "value")
    await asyncio.sleep(0.001 * (number % 2))
    assert not hasattr(local, "value")  # those of the others, of which some have ended
    me = threading.get_ident()
    local.value = number
    for turn in range(6):
        if (number + turn) % 3 == 0:
            time.sleep(0.002)
        elif (number + turn) % 3 == 1:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(0.002)
        assert local.value == number and threading.get_ident() == me
        assert asyncio.get_running_loop() is loop
        counted.count += 1
        assert counted.count == turn + 1
    idents.add(me)
async def main():
    global loop
    loop = asyncio.get_running_loop()
    local.value = "main's"
    await asyncio.gather(*[one(number) for number in range(30)])
    assert local.value == "main's" and len(idents) == 30
    await one_more()
    assert local.value == "changed by a coroutine of the same task"
async def one_more():
    await asyncio.sleep(0)
    local.value = "changed by a coroutine of the same task"
idents = set()
local.value = "the thread's"
asyncio.run(main(), debug={debug})
assert local.value == "the thread's" and Counted.made == 31
""")


def test_values_go_with_their_task():
    passes("""
async def ends(waits):
    local.thing = thing = Thing()
    things.append(weakref.ref(thing))
    local.me = asyncio.current_task()  # a cycle
    del thing
    waits and await asyncio.sleep(0)
    gc.collect()
    assert things[-1]() is local.thing
async def waits_for_ever():
    local.thing = thing = Thing()
    things.append(weakref.ref(thing))
    await asyncio.get_running_loop().create_future()
async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: told.append(context["message"]))
    for waits in (False, True):
        task = asyncio.create_task(ends(waits))
        await task
        assert things.pop()() is None, waits
        task = asyncio.create_task(ends(waits))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert things.pop()() is None, waits
    task = asyncio.create_task(waits_for_ever())
    await asyncio.sleep(0)
    assert things[0]() is not None
    del task
    gc.collect()
    assert things[0]() is None
told, things = [], []
asyncio.run(main())
assert told == ["Task was destroyed but it is pending!"], told
""")


def test_values_may_wait_where_they_end():
    """The destructor of a value parks, as one that closes a connection does."""
    passes("""
class Slow:
    def __del__(self):
        time.sleep(0.01)
        assert not hasattr(local, "slow")
        local.late = "of the destructor"
        ended.append(asyncio.get_running_loop())
async def one():
    await asyncio.sleep(0)
    assert not hasattr(local, "late") or local.late
    local.slow = Slow()
    await asyncio.sleep(0)
async def main():
    await asyncio.gather(*[one() for _ in range(5)])
    while len(ended) < 5:
        await asyncio.sleep(0.001)
    assert ended == [asyncio.get_running_loop()] * 5 and not hasattr(local, "late")
ended = []
asyncio.run(main())
""")


def test_callbacks_hand_their_values_on_but_not_while_they_wait():
    passes("""
def first():
    assert not hasattr(local, "value")
    local.value = "first"
def second():
    assert local.value == "first"
    time.sleep(0.02)
    assert local.value == "first"
    local.value = "second"
def meanwhile():
    assert not hasattr(local, "value")
    local.value = "meanwhile"
def third(done):
    assert local.value == "second"
    done.set_result(None)
async def main():
    loop = asyncio.get_running_loop()
    failures = []
    loop.set_exception_handler(lambda loop, context: failures.append(context))
    local.value = "task's"
    done = loop.create_future()
    for function in (first, second, meanwhile):
        loop.call_soon(function)
    loop.call_later(0.04, third, done)
    await done
    assert local.value == "task's" and not failures, failures
asyncio.run(main())
""")


def test_lock_of_a_task_is_its_own_over_awaits():
    passes("""
async def one(number):
    with lock:
        order.append(number)
        assert lock.acquire(False)
        lock.release()
        await asyncio.sleep(0.001)
        order.append(number)
async def main():
    await asyncio.gather(*[one(number) for number in range(5)])
    assert order == [number for number in range(5) for _ in range(2)], order
lock, order = threading.RLock(), []
asyncio.run(main())
""")


def test_tasks_in_several_threads():
    passes("""
async def one(number):
    for turn in range(10):
        local.values = getattr(local, "values", []) + [number]
        await asyncio.sleep(0)
        time.sleep(0.0005)
        assert local.values == [number] * (turn + 1)
async def main(start):
    await asyncio.gather(*[one(start + number) for number in range(5)])
def thread(start):
    local.values = "the thread's"
    asyncio.run(main(start))
    assert local.values == "the thread's"
    ended.append(start)
ended = []
from syncless.threads import RealThreadPoolExecutor
threads = [threading.Thread(target=thread, args=(start,)) for start in (0, 10, 20)]
for one_thread in threads: one_thread.start()
for one_thread in threads: one_thread.join()
with RealThreadPoolExecutor(2) as executor:
    assert list(executor.map(thread, (30, 40))) == [None, None]
assert len(ended) == 5
""")


def test_connection_of_a_task_as_in_django():
    """A connection for each thread, which refuses others by their ident."""
    passes("""
class Connection:
    made = 0
    def __init__(self):
        Connection.made += 1
        self.ident, self.busy = threading.get_ident(), False
    def query(self):
        assert self.ident == threading.get_ident() and not self.busy
        self.busy = True
        time.sleep(0.001)
        self.busy = False
def connection():
    if not hasattr(local, "connection"):
        local.connection = Connection()
    return local.connection
async def one():
    for turn in range(10):
        connection().query()
        await asyncio.sleep(0.001 if turn % 2 else 0)
async def main():
    await asyncio.gather(*[one() for _ in range(10)])
    assert Connection.made == 10, Connection.made
asyncio.run(main())
""")


def test_request_keeps_its_values_over_awaits():
    """Its first step is made in the tasklet of the request, the others elsewhere."""
    passes("""
import urllib.request
from syncless.wsgi import Server
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    assert not hasattr(local, "path")
    me, local.path = threading.get_ident(), scope["path"]
    local.thing = thing = Thing()
    things.append(weakref.ref(thing))
    del thing
    with lock:
        time.sleep(0.001)
        for turn in range(5):
            if scope["path"] != "/0":
                await asyncio.sleep(0.001 * turn)
            assert local.path == scope["path"] and threading.get_ident() == me
            time.sleep(0.001)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": local.path.encode()})
    assert local.path == scope["path"] and threading.get_ident() == me
def get(path):
    with urllib.request.urlopen(server.url + path[1:], timeout=60) as response:
        got.append((path, response.read().decode()))
things, got, lock = [], [], threading.RLock()
asyncio.get_event_loop().set_debug(False)  # in debug mode the loop makes the first step
with Server(app, "127.0.0.1", 0) as server:
    threads = [threading.Thread(target=get, args=(f"/{number}",)) for number in range(10)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert sorted(got) == [(f"/{number}",) * 2 for number in range(10)], got
gc.collect()
assert [thing() for thing in things] == [None] * 10
""")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
def test_eager_tasks():
    """Their first step is made in another task, and has its values."""
    passes("""
async def one(number):
    await asyncio.sleep(0)
    assert not hasattr(local, "value")
    local.value = number
    await asyncio.sleep(0)
    assert local.value == number
async def main():
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    local.value = "main's"
    await asyncio.gather(*[one(number) for number in range(5)])
    assert local.value == "main's"
asyncio.run(main())
""")
