"""A log that takes a second to write, in five ways, each behind the same server: run_slowlog.py PORT WAY LOG

none: nothing is written. synchronous: before the answer. epoll thread: a thread that waits for all of them by
epoll and timers. thread per request, tasklet: each is written by one of its own, after the answer.
"""

import heapq
import os
import select
import sys
import threading
import time

import syncless
from syncless.wsgi import serve

port, way, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
log = open(path, "w", buffering=1)  # noqa: SIM115


def write(sleep):
    sleep(1)
    log.write("a line\n")


class EpollThread:
    """Lines to be written come by a pipe, a byte each; those being written wait in a heap of times."""

    def __init__(self):
        self.left, self.right = os.pipe()
        threading.Thread(target=self.run, daemon=True).start()

    def add(self):
        os.write(self.right, b"x")

    def run(self):
        epoll, due = select.epoll(), []
        epoll.register(self.left, select.EPOLLIN)
        while True:
            for _ in epoll.poll(max(0, due[0] - time.monotonic()) if due else -1):
                for _ in os.read(self.left, 10_000):
                    heapq.heappush(due, time.monotonic() + 1)
            while due and due[0] <= time.monotonic():
                heapq.heappop(due)
                log.write("a line\n")


log_in = {
    "none": lambda: None,
    "synchronous": lambda: write(time.sleep),
    "epoll thread": EpollThread().add if way == "epoll thread" else None,
    "thread per request": lambda: threading.Thread(target=write, args=(time.sleep,)).start(),
    "tasklet": lambda: syncless.spawn(write, syncless.sleep),
}[way]


def app(environ, start_response):
    log_in()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [b"Hello, World!"]


serve(app, port=port, quiet=True)
