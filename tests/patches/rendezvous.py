"""A program for a process of its own: ``meet()`` waits in each primitive of the standard library for what
another thread does. Under the patch a wait that holds the thread never ends. Imported before or after it."""

import os
import queue
import selectors
import socket
import subprocess
import sys
import threading
import time


def start(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    return thread


def by_lock():
    lock = threading.Lock()
    lock.acquire()
    start(lock.release)
    with lock:
        pass


def by_rlock():
    lock, held, go = threading.RLock(), threading.Event(), threading.Event()

    def hold():
        with lock, lock:
            held.set()
            go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    start(go.set)
    with lock:
        pass
    holder.join()


def by_condition():
    condition, given = threading.Condition(), []

    def give():
        with condition:
            given.append(1)
            condition.notify_all()

    with condition:
        threading.Thread(target=give).start()
        assert condition.wait_for(lambda: given)


def by_event():
    event = threading.Event()
    threading.Thread(target=event.set).start()
    assert event.wait()


def by_semaphore():
    for semaphore in threading.Semaphore(0), threading.BoundedSemaphore(1):
        if isinstance(semaphore, threading.BoundedSemaphore):
            semaphore.acquire()
        start(semaphore.release)
        with semaphore:
            pass


def by_barrier():
    barrier = threading.Barrier(2)
    thread = threading.Thread(target=barrier.wait)
    thread.start()
    barrier.wait()
    thread.join()


def by_queues():
    for waiting in queue.Queue(1), queue.SimpleQueue(), queue.LifoQueue(), queue.PriorityQueue():
        start(waiting.put, 1)
        assert waiting.get() == 1
    full = queue.Queue(1)
    full.put(1)
    start(full.get)
    full.put(2)


def by_futures():
    from concurrent import futures

    with futures.ThreadPoolExecutor(2) as pool:
        event = threading.Event()
        waits = pool.submit(event.wait)
        pool.submit(event.set)
        assert waits.result()


def by_socket():
    one, other = socket.socketpair()
    with one, other:
        start(other.sendall, b"x")
        assert one.recv(1) == b"x"
        with selectors.DefaultSelector() as selector:
            selector.register(one, selectors.EVENT_READ)
            start(other.sendall, b"x")
            assert selector.select()


def by_sleep():
    ran = []
    start(ran.append, 1)
    while not ran:
        time.sleep(0.001)


def by_pipe():
    reads, writes = os.pipe()
    start(os.write, writes, b"x")
    assert os.read(reads, 1) == b"x"
    os.close(reads)
    os.close(writes)


def by_process():
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        start(process.stdin.close)
        process.wait()


WAYS = {name: value for name, value in list(globals().items()) if name.startswith("by_")}


def meet(*without):
    """The names of the waits that went wrong, with the error."""
    wrong = []
    for name, way in WAYS.items():
        if name in without:
            continue
        try:
            way()
        except Exception as error:
            wrong.append(f"{name}: {error!r}")
    return wrong
