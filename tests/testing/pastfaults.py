"""Faults that this project has had, each with a program that a user could have written.

The rows of the table in the guide: faults.py looks for them.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    commit: str
    """Its mend; "" where the guard that `old` lacks has been there from the first version on."""
    name: str
    file: str
    new: str
    """Stands there once."""
    old: str
    program: str
    """Defines test()."""


USED = """
import contextlib, queue, threading, time
import syncless
from syncless import spawn, sleep
from syncless.patches import patch_all
from syncless.testing import until_idle
patch_all()
"""

CONDITION, POOLS = "syncless/tools/conditions.py", "syncless/patches/pools.py"
FILES, GROUPS, THREADS = (
    "syncless/patches/files.py",
    "syncless/tools/groups.py",
    "syncless/patches/threads.py",
)
LOCKS, CONDITIONS = "syncless/patches/types/locks.pyx", "syncless/patches/types/locks/conditions.pxi"
SYNC, QUEUES = "syncless/_core/wait/sync.pyx", "syncless/_core/wait/queues.pyx"

NOTIFIED = """
def test():
    ready, told = threading.Condition(), []
    def wait(name):
        with ready:
            ready.wait()
            told.append(name)
    waiters = [spawn(wait, name) for name in "ab"]
    until_idle()
    spawn(waiters[0].kill)
    with ready:
        ready.notify()
    until_idle()
    assert told
"""

RELEASED = """
def test():
    ready, inside = threading.Condition(), []
    def wait():
        with ready:
            ready.wait(1)
    def work(name):
        with ready:
            inside.append(name)
            assert inside == [name]
            sleep(2)
            inside.remove(name)
    waiter = spawn(wait)
    until_idle()
    workers = [spawn(work, name) for name in "ab"]
    sleep(1.5)
    waiter.kill()
    for each in workers:
        each.join()
"""

HTTPX = """
import httpx
from syncless.wsgi import Server

def app(environ, start_response):
    sleep(1)
    start_response("200 OK", [("Content-Length", "1")])
    return [b"x"]

def test():
    server = Server(app, port=0).start()
    client = httpx.Client(limits=httpx.Limits(max_connections=1), timeout=60)
    pool = client._transport._pool
    def use():
        client.get(server.url)
    users = [spawn(use) for _ in range(3)]
    sleep(1)
    for each in users:
        each.kill()
    with syncless.Timeout(100):
        use()
    client.close()
    server.stop(0)
"""

REDIS = """
import redis

class Connection:
    pid = None
    def __init__(self, **options): pass
    def __getattr__(self, name): return lambda *args, **kwargs: None

def test():
    pool = redis.BlockingConnectionPool(max_connections=1, timeout=60, connection_class=Connection)
    def use():
        connection = pool.get_connection()
        try:
            sleep(1)
        finally:
            pool.release(connection)
    users = [spawn(use) for _ in range(3)]
    sleep(1)
    for each in users:
        each.kill()
    assert pool.pool.qsize() == 1
"""

FAULTS = [
    Fault(
        "",
        "a killed waiter keeps the lock that it was about to get",
        LOCKS,
        "        if me.handed_over:\n            wake_first(self)                    # killed after",
        "        if False:\n            wake_first(self)                    # killed after",
        """
def test():
    lock = threading.Lock()
    def use():
        with lock:
            sleep(1)
    with lock:
        users = [spawn(use) for _ in range(2)]
        until_idle()
        spawn(users[0].kill)
    users[1].join()
""",
    ),
    Fault(
        "",
        "a killed waiter keeps a condition's notification",
        CONDITIONS,
        "            notify(waiters, 1)                  # this waiter raises",
        "            pass                                # this waiter raises",
        NOTIFIED,
    ),
    Fault(
        "",
        "a notified waiter that is killed before its turn keeps the notification",
        CONDITIONS,
        "            notify(waiters, 1)                  # killed after its turn",
        "            pass                                # killed after its turn",
        NOTIFIED,
    ),
    Fault(
        "c3da09fa",
        "a waiter that is killed as a condition takes its lock again releases another's",
        CONDITIONS,
        "    uninterrupted(_take_again, lock, state)\n    if raised is None:",
        "    _take_again(lock, state)\n    if raised is None:",
        RELEASED,
    ),
    Fault(
        "7ee15f97",
        "a kill in release() loses the unit of a semaphore",
        THREADS,
        "    for owner in (_module_lock, *semaphores):\n",
        "    for owner in (_module_lock,):\n",
        """
def test():
    places = threading.Semaphore(1)
    def use():
        with places:
            sleep(1)
    users = [spawn(use) for _ in range(3)]
    sleep(1)
    for each in users:
        each.kill()
    assert places.acquire(timeout=10)
""",
    ),
    Fault(
        "7ee15f97",
        "a kill in task_done() lets a queue wait for ever",
        THREADS,
        '    patcher.done_whole(fifo, "task_done", INTERRUPTED)\n',
        "",
        """
def test():
    jobs = queue.Queue()
    def work():
        jobs.get()
        try:
            sleep(1)
        finally:
            jobs.task_done()
    workers = [spawn(work) for _ in range(2)]
    for number in range(2):
        jobs.put(number)
    sleep(1)
    workers[0].kill()
    jobs.join()
""",
    ),
    Fault(
        "3f3cb64b",
        "a kill in start() leaves a thread that nobody knows",
        THREADS,
        '    patcher.done_whole(_thread_class, "start", INTERRUPTED)\n',
        "",
        """
def test():
    known, ran = [], []
    def begin():
        thread = threading.Thread(target=lambda: ran.append(1))
        thread.start()
        known.append(thread)
    starter = spawn(begin)
    sleep(0)
    starter.kill()
    until_idle()
    assert len(known) == len(ran)
""",
    ),
    Fault(
        "e164d9df",
        "a thread whose join() is interrupted counts as ended",
        THREADS,
        '    if hasattr(_thread_class, "_wait_for_tstate_lock"):\n        why',
        "    if False:\n        why",
        """
def test():
    thread = threading.Thread(target=sleep, args=(10,))
    thread.start()
    waiter = spawn(thread.join)
    sleep(1)
    waiter.kill()
    assert thread.is_alive()
    thread.join()
""",
    ),
    Fault(
        "656dad5a",
        "two workers of Pool.imap() ask one iterator at once",
        "syncless/tools/pool.py",
        "                    with turn:\n",
        "                    if turn:\n",
        """
def numbers():
    for number in range(4):
        sleep(0)
        yield number

def test():
    assert list(syncless.Pool(2).imap(str, numbers())) == ["0", "1", "2", "3"]
""",
    ),
    Fault(
        "b6cd977b",
        "a TaskGroup kills a child a second time, while it cleans up",
        GROUPS,
        "            if child is not me and not told:",
        "            if child is not me:",
        """
def test():
    cleaned = []
    def serve():
        try:
            sleep(100)
        finally:
            sleep(1)
            cleaned.append(1)
    def fail():
        sleep(1)
        raise ValueError
    with contextlib.suppress(BaseException), syncless.TaskGroup() as group:
        group.spawn(serve)
        group.spawn(fail)
        sleep(50)
    assert cleaned
""",
    ),
    Fault(
        "b6cd977b",
        "a TaskGroup that is interrupted twice does not wait for its children",
        GROUPS,
        "                if error is not self._stop:\n                    interrupted = error\n",
        "                if error is not self._stop:\n                    self._open = False\n"
        "                    self._cancel()\n                    join_all(list(self._children))\n"
        "                    raise\n",
        """
def test():
    left = []
    def serve():
        left.append(1)
        try:
            sleep(100)
        finally:
            sleep(1)
            left.pop()
    def serve_all():
        with syncless.TaskGroup() as group:
            for _ in range(2):
                group.spawn(serve)
    owner = spawn(serve_all)
    sleep(1)
    owner.kill(block=False)
    sleep(0.5)
    owner.kill()
    owner.join()
    assert not left
""",
    ),
    Fault(
        "",
        "a killed waiter keeps the unit of a semaphore that it was about to get",
        SYNC,
        "            if me is not None and me.handed_over:\n                self.release_unit()\n",
        "",
        """
def test():
    places = syncless.Semaphore(1)
    def use():
        with places:
            sleep(1)
    with places:
        users = [spawn(use) for _ in range(2)]
        until_idle()
        spawn(users[0].kill)
    users[1].join()
""",
    ),
    Fault(
        "",
        "a killed getter keeps the item of a queue",
        QUEUES,
        "                self._give_back(item)\n            raise\n",
        "            raise\n",
        """
def test():
    items, seen = syncless.Queue(), []
    getters = [spawn(lambda: seen.append(items.get())) for _ in range(2)]
    until_idle()
    spawn(getters[0].kill)
    items.put("item")
    until_idle()
    assert seen == ["item"]
""",
    ),
    Fault(
        "",
        "a killed getter of a SimpleQueue keeps the turn of the next one",
        LOCKS,
        "                raise Empty\n    except BaseException:\n        if me.handed_over:\n"
        "            wake_first(self)\n",
        "                raise Empty\n    except BaseException:\n",
        """
def test():
    items, seen = queue.SimpleQueue(), []
    getters = [spawn(lambda: seen.append(items.get())) for _ in range(2)]
    until_idle()
    spawn(getters[0].kill)
    items.put("item")
    until_idle()
    assert seen == ["item"]
""",
    ),
    Fault(
        "49a152af",
        "a killed waiter keeps the notification of a condition of syncless",
        CONDITION,
        "            if told.is_set():\n                self.notify()\n",
        "",
        NOTIFIED.replace("threading", "syncless"),
    ),
    Fault(
        "643c1986",
        "a killed waiter releases the lock of a condition of syncless that another one holds",
        CONDITION,
        "        uninterrupted(\n            self._take_again, count\n        )",
        "        self._take_again(count)",
        RELEASED.replace("threading.Condition()", "syncless.Condition(syncless.Lock())"),
    ),
    Fault(
        "",
        "a killed receiver keeps the value of a channel",
        QUEUES,
        "                self.pass_on(value)\n            raise\n",
        "            raise\n",
        """
def test():
    values, seen = syncless.Channel(), []
    receivers = [spawn(lambda: seen.append(values.receive())) for _ in range(2)]
    until_idle()
    spawn(receivers[0].kill)
    spawn(values.send, "value")
    until_idle()
    assert seen == ["value"]
""",
    ),
    Fault(
        "7a8bb2a0",
        "a killed putter keeps its place in a priority queue",
        QUEUES,
        "            if me is not None and me.handed_over:\n                self.undo_admission()\n",
        "",
        """
def test():
    items = syncless.PriorityQueue(1)
    items.put(0)
    putters = [spawn(items.put, number) for number in (1, 2)]
    until_idle()
    spawn(putters[0].kill)
    items.get()
    until_idle()
    assert items.get(timeout=1) in (1, 2)
""",
    ),
    Fault(
        "09e02275",
        "a connection of httpcore that was made for a killed request counts as in use",
        POOLS,
        "            give_up_lost(self)\n            raise\n",
        "            raise\n",
        HTTPX,
    ),
    Fault(
        "9d9d1d60",
        "a kill in release() loses a connection of redis-py",
        POOLS,
        '        for name in ("make_connection", "release"):\n',
        '        for name in ("make_connection",):\n',
        REDIS,
    ),
    Fault(
        "",
        "a released lock wakes a waiter that was killed, and no other",
        LOCKS,
        "                    woken_by_holder(first)\n                break\n",
        "                    woken_by_holder(first)\n            break\n",
        """
def test():
    lock = threading.Lock()
    def use():
        with lock:
            sleep(1)
    lock.acquire()
    users = [spawn(use) for _ in range(2)]
    until_idle()
    def leave():
        users[0].kill(block=False)
        lock.release()
    spawn(leave)
    users[1].join()
""",
    ),
    Fault(
        "",
        "a tasklet that was woken leaves its deadline behind",
        "syncless/_core/scheduler.pyx",
        "        if tasklet.timer.index >= 0:\n            self.timers.remove(&tasklet.timer)\n"
        "        if tasklet.recorder",
        "        if tasklet.recorder",
        """
def test():
    ready, lock = threading.Event(), threading.Lock()
    def wait():
        ready.wait(5)
        with lock:
            return 1
    with lock:
        waiter = spawn(wait)
        sleep(1)
        ready.set()
        sleep(10)
        assert not waiter.done()
    assert waiter.result() == 1
""",
    ),
    Fault(
        "074a88da",
        "an exception that was thrown at a woken tasklet is lost",
        "syncless/_core/scheduler.pyx",
        "    return 0 if tasklet.pending is None else self.raise_pending(tasklet)\n",
        "    return 0 if tasklet.pending is None or tasklet.handed_over else self.raise_pending(tasklet)\n",
        """
def test():
    ready, served = syncless.Event(), []
    def serve():
        ready.wait()
        sleep(10)
        served.append(1)
    server = spawn(serve)
    until_idle()
    spawn(server.kill)
    ready.set()
    server.join()
    assert not served
""",
    ),
    Fault(
        "074a88da",
        "a killed receiver keeps the value of a channel of Stackless",
        "syncless/stackless/_channel.pyx",
        "            elif me.handed_over and direction < 0:\n                self.give_back(value)\n",
        "",
        """
from syncless import stackless
def test():
    values, seen = stackless.channel(), []
    receivers = [stackless.tasklet(lambda: seen.append(values.receive()))() for _ in range(2)]
    until_idle()
    spawn(receivers[0].kill)
    spawn(values.send, "value")
    until_idle()
    assert seen == ["value"]
""",
    ),
    Fault(
        "7ee15f97",
        "a kill in an import keeps others from importing the module",
        THREADS,
        "    for owner in (_module_lock, *semaphores):\n",
        "    for owner in semaphores:\n",
        """
import pathlib, sys, tempfile
folder = tempfile.mkdtemp()
sys.path.insert(0, folder)
pathlib.Path(folder, "slow.py").write_text("import time; time.sleep(1)")

def test():
    sys.modules.pop("slow", None)
    def use():
        import slow
    users = [spawn(use) for _ in range(3)]
    sleep(1)
    for each in users[:2]:
        each.kill()
    for each in users:
        each.join()
    use()
""",
    ),
    Fault(
        "074a88da",
        "a map() of a pool that is interrupted does not wait for its workers",
        "syncless/tools/pool.py",
        "            stop()\n            join_all(told)\n",
        "            stop()\n",
        """
def test():
    left = []
    def serve(number):
        left.append(number)
        try:
            sleep(100)
        finally:
            sleep(1)
            left.remove(number)
    def serve_all():
        syncless.Pool(2).map(serve, range(3))
    owner = spawn(serve_all)
    sleep(1)
    owner.kill()
    owner.join()
    assert not left
""",
    ),
    Fault(
        "9d9d1d60",
        "a kill in make_connection() loses a place of redis-py's pool",
        POOLS,
        '        for name in ("make_connection", "release"):\n',
        '        for name in ("release",):\n',
        REDIS.replace("options): pass", "options): sleep(0.1)"),  # it reads a file
    ),
    Fault(
        "e164d9df",
        "a thread counts as ended while its values of threading.local still clean up",
        THREADS,
        "        end_thread_locals()\n        locks.thread_has_ended(this_tasklet())\n",
        "        locks.thread_has_ended(this_tasklet())\n",
        """
class Held:
    def __del__(self):
        sleep(1)
        ended.append(1)

def test():
    global ended
    ended, own = [], threading.local()
    def work():
        own.held = Held()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended
""",
    ),
    Fault(
        "6cc1f1c9",
        "who reads a pipe waits for ever if another closes its descriptor",
        FILES,
        "_close = ClosingFunction(os.close)\n",
        "_close = DescriptorFunction(os.close)\n",
        """
import os

def test():
    source, sink = os.pipe()
    ended = []
    def read():
        with contextlib.suppress(OSError):
            os.read(source, 1)
        ended.append(1)
    reader = spawn(read)
    until_idle()
    os.close(source)
    reader.join(10)
    os.close(sink)
    assert ended
""",
    ),
    Fault(
        "ad6d16db",
        "a getter ends the next put() of a green thread that was interrupted in one",
        "syncless/eventlet/_waits.pyx",
        "            offer.putter = None                 # which",
        "            pass                                # which",
        """
import syncless.eventlet as eventlet
from syncless.eventlet import queue as green

def test():
    channel, taken, done = green.LightQueue(0), [], []
    def put():
        for item in "first", "second":
            with contextlib.suppress(KeyError):
                channel.put(item, timeout=5)
                done.append(item)
    getter = eventlet.spawn(lambda: [taken.append(channel.get(timeout=1)) for _ in range(2)])
    putter = eventlet.spawn(put)
    sleep(0)
    spawn(putter.throw, KeyError("stop"))
    with contextlib.suppress(BaseException):
        putter.wait()
        getter.wait()
    assert set(done) <= set(taken)
""",
    ),
]
