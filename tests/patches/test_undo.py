"""The patch is undone where others wait: nobody is left behind in silence."""

from tests.programs import run_python


def test_threads_that_are_tasklets_must_have_ended():
    """This thread would wait in the interpreter's own calls, and would not let them run."""
    assert (
        run_python("""
import concurrent.futures, threading
from syncless.patches import is_patched, patch_all, unpatch
patch_all()
lock = threading.Lock()
lock.acquire()
waiting = threading.Thread(target=lock.acquire, name="the one that waits")
waiting.start()
executor = concurrent.futures.ThreadPoolExecutor(1, "executor")
assert executor.submit(int, 5).result() == 5
for areas in ((), ("thread",)):
    try:
        unpatch(*areas)
    except RuntimeError as error:
        assert str(error).endswith("shut down their executors: executor_0, the one that waits"), error
    else:
        raise AssertionError
    assert is_patched("thread") and is_patched("socket")
unpatch("socket")                       # which they do not wait for
lock.release()
waiting.join()
executor.shutdown()
unpatch()
print(is_patched("thread"))
""")
        == "False\n"
    )


def test_thread_that_has_ended_or_undoes_the_patch_does_not_hinder_it():
    run_python("""
import threading
from syncless.patches import is_patched, patch_all, unpatch
patch_all()
thread = threading.Thread(target=unpatch)
thread.start()
thread.join()
assert not is_patched("thread")
main = threading.main_thread()
assert threading.current_thread() is main and threading.enumerate() == [main]
""")


def test_child_of_a_fork_has_no_threads_of_its_parent():
    run_python("""
import os, threading
from syncless.patches import patch_all, unpatch
patch_all()
goes_on = threading.Event()
waiting = threading.Thread(target=goes_on.wait)
waiting.start()
def fork():
    child = os.fork()
    if not child:
        try:
            assert threading.active_count() == 1, threading.enumerate()
            unpatch()
            idents = []
            thread = threading.Thread(target=lambda: idents.append(threading.get_native_id()))
            thread.start(); thread.join()
            os._exit(0 if idents[0] != os.getpid() else 3)
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
fork()
goes_on.set()
waiting.join()
""")


def test_os_thread_that_began_to_wait_under_the_patch_goes_on():
    """It waits in turn for each of them, under the patch, without it, and under the next one."""
    assert (
        run_python("""
import queue, threading, time
makers = {
    "queue": queue.Queue, "simple": queue.SimpleQueue, "lock": threading.Lock,
    "condition": threading.Condition, "event": threading.Event, "semaphore": lambda: threading.Semaphore(0),
    "rlock": threading.RLock,
}
def waits(kind, thing):
    time.sleep(0)                       # under the patch its thread has a loop
    {
        "queue": lambda: thing.get(), "simple": lambda: thing.get(), "lock": lambda: thing.acquire(),
        "condition": lambda: wait_in(thing), "event": lambda: thing.wait(),
        "semaphore": lambda: thing.acquire(), "rlock": lambda: thing.acquire(),
    }[kind]()
def wait_in(condition):
    with condition:
        told.append(condition)
        condition.wait()
def ends(kind, thing):
    if kind == "condition":
        while thing not in told:
            time.sleep(0.001)
        with thing:
            thing.notify()
    else:
        {"queue": lambda: thing.put(1), "simple": lambda: thing.put(1), "lock": lambda: thing.release(),
         "event": lambda: thing.set(), "semaphore": lambda: thing.release(),
         "rlock": lambda: thing.release()}[kind]()
told, jobs, done = [], queue.SimpleQueue(), []
def work():
    while (job := jobs.get()) is not None:
        begun.set()
        waits(*job)
        done.append(job[0])
        finished.release()
from syncless.patches import patch_all, unpatch
begun, finished = threading.Event(), threading.Semaphore(0)
worker = threading.Thread(target=work)
worker.start()                          # an OS thread
for again in (False, True):
    for kind, make in makers.items():
        thing = make()
        if "lock" in kind:
            thing.acquire()
        begun.clear()
        patch_all()
        jobs.put((kind, thing))
        begun.wait()
        time.sleep(0.005)               # it waits by now, or will: both are right
        unpatch()
        if again:
            patch_all()
        ends(kind, thing)
        finished.acquire()
        if again:
            unpatch()
jobs.put(None)
worker.join()
print(*done)
""")
        == " ".join(["queue simple lock condition event semaphore rlock"] * 2) + "\n"
    )


def test_nothing_of_asyncio_stays_changed():
    run_python("""
import asyncio
before = dict(vars(asyncio.Task))
from syncless.patches import patched
async def main():
    async with asyncio.timeout(5) if hasattr(asyncio, "timeout") else asyncio.Lock():
        pass
for _ in range(2):
    with patched():
        asyncio.run(main())
    assert dict(vars(asyncio.Task)) == before
import syncless.asyncio.eventloop       # by which a program uses the loop without the patch
""")
