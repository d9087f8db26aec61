"""threading.Condition, Event and queue.Queue under the patch: they do what they did, and nobody is
forgotten."""

from tests.programs import run_unchecked


def run_program(text):
    done = run_unchecked(text)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_random_programs_that_wait_for_nothing_do_what_they_do_unpatched():
    run_program("""
import queue, random, threading
class Hooked(queue.Queue):
    def _put(self, item): super()._put(("hooked", item))
WAITS = ((), (False,), (True, 0), (True, 0.0), (True, -1), (False, -1), (1, 0), (True, None), (True, "soon"))
def attempt(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error), str(error)
def program(seed):
    random.seed(seed)
    kind = random.choice([queue.Queue, queue.LifoQueue, queue.PriorityQueue, Hooked])
    items, event, seen = kind(random.choice([0, 1, 3, -1, 2.5])), threading.Event(), []
    for number in range(40):
        way = random.choice(WAITS)
        full, empty = items.full(), items.empty()
        if hasattr(items, "shutdown") and random.random() < 0.02:
            items.shutdown()
        open = not getattr(items, "is_shutdown", False)
        match random.randrange(6):
            case 0 | 1 if not (open and full and way in ((), (True, None))):                # it would wait
                seen.append(attempt(items.put, number, *way))
            case 2 if not (open and empty and way in ((), (True, None))):
                seen.append(attempt(items.get, *way))
            case 3:
                seen.append(attempt(items.task_done))
            case 4:
                seen.append((event.set() if random.random() < 0.5 else event.clear(), event.is_set()))
            case 5:
                seen.append(event.wait() if event.is_set() and not way else event.wait(0))
        seen.append((list(items.queue), items.unfinished_tasks, items.qsize()))
    return seen
before = [program(seed) for seed in range(500)]
from syncless.patches import patched, describe
with patched():
    assert "queue.Queue.put" in describe() and "threading.Event.set" in describe()
    for seed, expected in enumerate(before):
        assert program(seed) == expected, (seed, program(seed), expected)
assert program(7) == before[7]
print("done")
""")


def test_waiters_are_woken_and_capacity_is_kept():
    run_program("""
import queue, threading, time
early, early_event = queue.Queue(2), threading.Event()
from syncless.patches import patch_all
patch_all()
for items in (early, queue.Queue(2), queue.LifoQueue(2)):
    event = early_event if items is early else threading.Event()
    got, put = [], []
    def consume():
        while (item := items.get(timeout=60)) is not None:
            got.append(item)
            items.task_done()
            assert len(items.queue) <= 2
        event.set()
    def produce(first):
        for number in range(first, first + 100):
            items.put(number, timeout=60)
            put.append(number)
            assert len(items.queue) <= 2
            if number % 7 == 0:
                time.sleep(0)
    threads = [threading.Thread(target=consume)]
    threads += [threading.Thread(target=produce, args=(first,)) for first in (0, 100, 200)]
    for thread in threads: thread.start()
    for thread in threads[1:]: thread.join()
    items.join()
    assert sorted(got) == sorted(put) == list(range(300))
    assert not event.wait(0.01)
    items.put(None)
    assert event.wait(60)
    event.clear()
    assert not event.wait(0)
    # the holder of the lock keeps others out
    with items.mutex:
        thread = threading.Thread(target=items.put, args=("late",))
        thread.start()
        time.sleep(0.01)
        assert not items.queue
    thread.join()
    assert list(items.queue) == ["late"]
    with event._cond:
        thread = threading.Thread(target=event.set)
        thread.start()
        time.sleep(0.01)
        assert not event.is_set()
    thread.join()
    assert event.is_set()
print("done")
""")


def test_a_loop_that_never_waits_lets_others_run():
    run_program("""
import queue, threading
from syncless.patches import patch_all
patch_all()
steps = (
    lambda: items.put(items.get()),
    lambda: items.put_nowait(items.get_nowait()),
    lambda: event.set() or event.wait(),
)
for step in steps:
    items, event, stop = queue.Queue(), threading.Event(), []
    items.put(0)
    thread = threading.Thread(target=stop.append, args=(True,))
    thread.start()
    while not stop:
        step()
    thread.join()
print("done")
""")


def test_refused_as_they_are_unpatched():
    run_program("""
import queue, threading
class Own(threading.Condition):
    pass
def attempt(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error)
def program():
    seen = []
    for condition in (threading.Condition(), threading.Condition(threading.Lock()), Own()):
        for call in (condition.wait, condition.notify, condition.notify_all, condition.release):
            seen.append(attempt(call))
        with condition:
            for arguments in ((0,), (-1,), (0.001,), ("soon",), (1e30,), (None, 1)):
                seen.append(attempt(condition.wait, *arguments))
            for arguments in ((), (0,), (-1,), (2.5,), ("all",)):
                seen.append(attempt(condition.notify, *arguments))
            seen.append(attempt(condition.notify_all))
            seen += [condition.wait_for(lambda: False, 0.001), condition.wait_for(lambda: 5)]
            assert not condition._waiters
        assert condition.acquire(False)
        condition.release()
    for arguments in ((0,), (-1,), (0.001,), ("soon",), (1e30,)):
        seen.append(attempt(threading.Event().wait, *arguments))
    return seen
before = program()
from syncless.patches import patch_all
patch_all()
assert program() == before, (program(), before)
print("done")
""")


def test_killed_waiter_passes_its_turn_on():
    run_program("""
import queue, threading, syncless
from syncless.patches import patch_all
patch_all()
items = queue.Queue()
first, second = syncless.spawn(items.get), syncless.spawn(items.get)
syncless.sleep(0)
items.put("item")
first.kill()                                            # it was its turn
assert second.result(timeout=60) == "item" and not items.not_empty._waiters
full = queue.Queue(1)
full.put(0)
first, second = syncless.spawn(full.put, 1), syncless.spawn(full.put, 2)
syncless.sleep(0)
assert full.get() == 0
first.kill()
second.join(timeout=60)
assert full.get_nowait() == 2 and not full.not_full._waiters
condition, woken = threading.Condition(), []
def wait(name):
    with condition:
        assert condition.wait(60)
        woken.append(name)
first, second = syncless.spawn(wait, "first"), syncless.spawn(wait, "second")
syncless.sleep(0)
with condition:
    condition.notify()
first.kill()
second.result(timeout=60)
assert woken == ["second"]
for thing in (items.get, threading.Event().wait):       # it was not its turn
    waiting = syncless.spawn(thing)
    syncless.sleep(0)
    waiting.kill()
assert not items.not_empty._waiters
print("done")
""")


def test_tasklet_killed_while_it_reacquires_its_lock_releases_no_other():
    run_program("""
import threading, syncless
from syncless.patches import patch_all
patch_all()
class Interrupted(Exception): pass
for make in (threading.Lock, threading.RLock):
    condition, heard, ended = threading.Condition(make()), [], []
    def wait(name):
        try:
            with condition:
                heard.append((name, condition.wait(60)))
        except BaseException as error:
            ended.append(type(error))
    first, second = syncless.spawn(wait, "first"), syncless.spawn(wait, "second")
    syncless.sleep(0)
    with condition:
        condition.notify()
        syncless.sleep(0)                               # the first waits for the lock
        for error in (syncless.TaskletExit, Interrupted):
            first.kill(error, block=False)
            syncless.sleep(0)
            assert not first.done() and condition._is_owned()
    assert syncless.join_all([first, second], timeout=60)
    assert heard == [("second", True)] and ended == [syncless.TaskletExit]
    waiting = syncless.spawn(wait, "third")             # killed before it is told
    syncless.sleep(0)
    with condition:
        waiting.kill(syncless.TaskletExit, block=False)
        syncless.sleep(0)
        waiting.kill(KeyboardInterrupt, block=False)    # twice: it does not wait for anything any more
        syncless.sleep(0)
        assert waiting.done()
        if make is threading.Lock:                      # as unpatched, it has given back another's
            assert not condition._is_owned() and condition.acquire()
    assert ended[1] in (KeyboardInterrupt, RuntimeError) and not condition._waiters
    assert condition.acquire(blocking=False)
print("done")
""")


def test_condition_releases_a_lock_held_twice():
    run_program("""
import threading
from syncless.patches import patch_all
patch_all()
condition, seen = threading.Condition(), []
def other():
    with condition:
        seen.append("inside")
        condition.notify_all()
threads = [threading.Thread(target=other) for _ in range(3)]
with condition, condition:
    for thread in threads: thread.start()
    assert condition.wait(60) and seen
    assert condition._is_owned()
    condition.release()
    condition.notify()                                  # held once more
    condition.acquire()
for thread in threads: thread.join()
assert len(seen) == 3 and not condition._is_owned()
print("done")
""")


def test_between_tasklets_and_os_threads():
    """Both sides wait: the OS thread has no loop and blocks."""
    run_program("""
import queue, threading, syncless
from syncless.patches import patch_all
patch_all()
there, back, event, ended = queue.Queue(2), queue.LifoQueue(1), threading.Event(), threading.Event()
condition, turns = threading.Condition(), []
def os_thread():
    for number in range(300):
        back.put(there.get(timeout=60) + 1, timeout=60)
    assert event.wait(60)
    for number in range(100):
        with condition:
            assert condition.wait_for(lambda: len(turns) % 2 == 1, 60)
            turns.append(number)
            condition.notify_all()
    ended.set()
def tasklet():
    for number in range(300):
        there.put(number, timeout=60)
def other_tasklet():
    found = sorted(back.get(timeout=60) for _ in range(300))
    assert found == list(range(1, 301))
    event.set()
    for number in range(100):
        with condition:
            assert condition.wait_for(lambda: len(turns) % 2 == 0, 60)
            turns.append(number)
            condition.notify_all()
threads = [threading.Thread(target=tasklet), threading.Thread(target=other_tasklet)]
for thread in threads: thread.start()
syncless.run_in_thread(os_thread)
for thread in threads: thread.join()
assert ended.wait(60) and turns == [number // 2 for number in range(200)]
print("done")
""")


def test_queue_shutdown_wakes_its_waiters():
    run_program("""
import queue, syncless
from syncless.patches import patch_all
patch_all()
if hasattr(queue.Queue, "shutdown"):                    # Python 3.13
    def refused(call, *arguments, **options):
        try:
            call(*arguments, **options)
        except queue.ShutDown:
            return True
    for kind in (queue.Queue, queue.LifoQueue):
        empty, full = kind(), kind(1)
        full.put(0)
        waiting = [syncless.spawn(refused, empty.get, timeout=60)]
        waiting += [syncless.spawn(refused, empty.get), syncless.spawn(refused, full.put, 1)]
        syncless.sleep(0)
        empty.shutdown()
        full.shutdown()
        assert all(each.result(timeout=60) for each in waiting)
        assert full.get() == 0 and refused(full.get) and refused(full.put_nowait, 1)
print("done")
""")


def test_exception_thrown_while_a_condition_takes_its_lock_is_kept():
    run_program("""
import threading, syncless
from syncless.patches import patched
class Interrupted(Exception): pass
def program(make):
    condition, caught, told = threading.Condition(make()), [], []
    def catch(wait):
        try:
            wait()
        except BaseException as error:
            caught.append(error)
    def body():
        with condition:
            catch(condition.wait)
            told.append("has the lock")
            for _ in range(2):
                catch(lambda: syncless.sleep(1))
    victim = syncless.spawn(body)
    syncless.sleep(0)
    thrown = [Interrupted(1), syncless.TaskletExit(), Interrupted(2)]
    with condition:
        for error in thrown:
            victim.kill(error, block=False)
            syncless.sleep(0)
            syncless.sleep(0)
        assert not told
    assert victim.join(60) and caught == thrown and told, caught
with patched():
    program(threading.Lock)
    program(threading.RLock)
print("done")
""")
