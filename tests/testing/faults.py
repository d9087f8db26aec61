"""Faults that this project has had: whether schedules find them.

``python -m tests.testing.faults [NAME ...]`` takes one row of the table after another. It puts the old text
back in a copy of the checkout, and runs a program that a user could have written, under up to 200 schedules:
they must find the fault there, and none in the present code. With `--write` the results become the table of
the guide.

A fault in a Python file needs no copy: the program's process reads the file with the old text.
"""

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import subprocess
import sys
import threading
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
TREE = ROOT / "build" / "faults"
PAGE = ROOT / "docs" / "howto" / "concurrent-tests.md"
BEGIN, END = "<!-- faults: by python -m tests.testing.faults --write -->\n", "<!-- end of faults -->\n"
SCHEDULES = 200


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
GROUPS, THREADS = "syncless/tools/groups.py", "syncless/patches/threads.py"
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
        """
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
""",
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
]

RUN = """
import json, sys, time
from syncless.testing.search import Search, Run
from syncless.testing.virtualtime import clocks_replaced

def attempt(run):
    try:
        run.call(test)
    except BaseException as error:
        run.error = error
    return run.error is not None

search = Search(attempt, {count})
began = time.perf_counter()
with clocks_replaced():
    found = search.find(shortens=False)
seconds = time.perf_counter() - began
error = type(search.last.error).__name__ if found else None
print(json.dumps({{"seed": search.seed, "runs": search.runs, "seconds": seconds, "error": error}}))
"""


class OldText(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module of syncless, and reads it with the text of before its mend."""

    def __init__(self, file, new, old):
        path = str(ROOT / file)
        name = file.removesuffix(".py").replace("/", ".")
        super().__init__(name, path)
        self._new, self._old = new, old

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path).decode(), self.path)

    def source_to_code(self, text, path):
        assert text.count(self._new) == 1, f"{self.path} has changed: {self._new!r}"
        return super().source_to_code(text.replace(self._new, self._old), path)


def missing(fault):
    """What the fault needs and is not here, or None."""
    for package in "httpx", "redis":
        if f"import {package}" in fault.program and importlib.util.find_spec(package) is None:
            return package
    name = "_wait_for_tstate_lock"  # until Python 3.13
    return name if name in fault.new and not hasattr(threading.Thread, name) else None


def look(fault, is_old, tree=ROOT):
    """What schedules find: the seed or None, runs and seconds."""
    program = USED + fault.program + RUN.format(count=SCHEDULES)
    if is_old and fault.file.endswith(".py"):
        finder = "from tests.testing.faults import OldText\nimport sys\n"
        program = f"{finder}sys.meta_path.insert(0, OldText(*{fault[2:5]!r}))\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"{fault.name}: {done.stderr or done.stdout}")
    return json.loads(done.stdout.splitlines()[-1])


def build():
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.DEVNULL)


def look_in_copy(fault):
    """As look() with the old text, which is compiled."""
    file = TREE / fault.file
    text = file.read_text()
    assert text.count(fault.new) == 1, f"{fault.file} has changed: {fault.name}"
    try:
        file.write_text(text.replace(fault.new, fault.old))
        build()
        return look(fault, True, TREE)
    finally:
        file.write_text(text)


def copy():
    """The checkout with what is built of it."""
    TREE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tests/copy.sh", TREE], cwd=ROOT, check=True)
    for file in {fault.file for fault in FAULTS if not fault.file.endswith(".py")}:
        (TREE / file).touch()  # an earlier run may have left what it built of a fault
    build()


def table(rows):
    lines = ["| fault | fixed in | found by seed | runs | ms |", "|---|---|---:|---:|---:|"]
    for fault, found in rows:
        mend = f"`{fault.commit}`" if fault.commit else ""
        line = (
            f"| {fault.name} | {mend} | {found['seed']} | {found['runs']} | {1000 * found['seconds']:.1f} |"
        )
        lines.append(line)
    return f"CPython {platform.python_version()}:\n\n" + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.testing.faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--python-only", action="store_true", help="none in compiled files")
    parser.add_argument("--write", action="store_true", help="write the table of the guide")
    given = parser.parse_args()
    chosen = [
        fault
        for fault in FAULTS
        if (not given.names or any(name in fault.name for name in given.names))
        and (fault.file.endswith(".py") or not given.python_only)
        and missing(fault) is None
    ]
    if not all(fault.file.endswith(".py") for fault in chosen):
        copy()
    rows, missed = [], 0
    for fault in chosen:
        began = time.monotonic()
        present = look(fault, False)
        found = look(fault, True) if fault.file.endswith(".py") else look_in_copy(fault)
        good = found["seed"] is not None and present["seed"] is None
        missed += not good
        rows.append((fault, found))
        print(f"{'found' if good else 'WRONG'} | {fault.name} | {found} | present: {present}", end=" ")
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    if given.write and not missed:
        text = PAGE.read_text()
        before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
        PAGE.write_text(f"{text[:before]}\n{table(rows)}\n{text[after:]}")
    print(f"{len(rows) - missed} of {len(rows)} were found, with nothing in the present code")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
