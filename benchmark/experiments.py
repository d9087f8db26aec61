"""The measurements: one row per experiment, with the peers it is compared with and the ratios that it should
reach."""

from __future__ import annotations

import os
import select
import socket
import statistics
import time
from collections.abc import Callable

from benchmark.arena import ARENA
from benchmark.asgi import ASGI
from benchmark.burst import burst
from benchmark.experiment import Experiment, Scale
from benchmark.held import held, relieved
from benchmark.http2 import HTTP2
from benchmark.loads import BROWSER, FEW, Load, ab, idle_clients, wrk
from benchmark.measure import CORES, LOAD_CORE, room_for
from benchmark.servers import BUILD, LATER_LOG, Running

SERVERS = (
    "syncless",
    "bjoern",
    "meinheld",
    "granian",
    "uwsgi",
    "uvicorn (ASGI)",
    "gevent",
    "gunicorn, gevent",
    "gunicorn, gthread",
    "eventlet",
    "waitress",
    "cheroot",
    "fastpysgi",
    "freastal",
    "pyruvate",
    "peregrine",
)
"""Servers that users of Python may run instead."""
READ_ONCE = ("syncless, blocking", "uwsgi, blocking", "uwsgi, 2 threads")
"""Servers of the experiment calllater without the second reading."""
HELLO = (
    "syncless",
    "floor",
    "node",
    "go nethttp",
    "go fasthttp",
    "bjoern",
    "meinheld",
    "peregrine",
    "gevent",
)
NATIVE = "syncless native"
BACKLOGS = (
    "syncless, raw, backlog 5",
    "syncless, raw, backlog 100",
    "syncless, raw, backlog 1024",
    "syncless",
    "node",
)
STANDBY = "syncless, a thread stands by"


def _idle(server: Running, scale: Scale) -> Load:
    """50 active connections, first alone, then beside many idle ones that have each had one answer.

    The memory of the idle ones and the CPU per request without them are in `latency_ms`.
    """
    started = server.cpu_ns
    alone = wrk(server.port, scale.seconds, headers=FEW)
    cpu_alone = (server.cpu_ns - started) / alone.requests / 1000
    before = server.private_bytes
    with idle_clients(server.port, scale.idle) as clients:
        used = server.private_bytes - before
        server.measured_from = server.cpu_ns
        load = wrk(server.port, scale.seconds, headers=FEW)
        if lost := _closed(clients):
            raise AssertionError(f"it closed {lost:,} of {len(clients):,} idle connections")
    load.latency_ms["bytes per idle connection"] = used / max(1, len(clients))
    load.latency_ms["cpu_us alone"] = cpu_alone
    return load


def _closed(clients: list[socket.socket]) -> int:
    """How many the server has closed."""
    poll = select.poll()
    for client in clients:
        poll.register(client, select.POLLRDHUP)
    return len(poll.poll(0))


def _slow_log(server: Running, scale: Scale) -> Load:
    """`ab -n 100 -c 10`, and how long it takes until all that it asked for is in the log. `most`: lines that
    were under way at once."""
    log = BUILD / "slow.log"
    way = server.name.partition(": ")[2]
    number = 100 if scale.requests > 10_000 and way != "synchronous" else 20
    time.sleep(1.2)  # until the log lines of the check of the answers are written
    before = log.read_text().count("\n") if log.exists() else 0
    started = time.perf_counter()
    load = ab(server.port, number, 10)
    lines = 0
    while way != "none" and lines < number:
        if time.perf_counter() - started > 200:
            raise AssertionError(f"{number - lines} lines have not been written")
        time.sleep(0.01)
        lines = log.read_text().count("\n") - before
    load.latency_ms["all written"] = (time.perf_counter() - started) * 1e3
    return load


def _ten_thousand(server: Running, scale: Scale) -> Load:
    """As many requests as fit into the second in which none of their lines is written yet."""
    log = BUILD / "slow.log"
    time.sleep(1.2)
    before = log.read_text().count("\n")
    number = 10_000 if scale.requests > 10_000 else 500
    load = ab(server.port, number, 100, keep=True)
    load.latency_ms["under way"] = number - (log.read_text().count("\n") - before)
    end = time.monotonic() + 60
    while log.read_text().count("\n") - before < number:
        if time.monotonic() > end:
            raise AssertionError(
                f"{number - log.read_text().count(chr(10)) + before} lines have not been written"
            )
        time.sleep(0.05)
    return load


def _call_later(server: Running, scale: Scale) -> Load:
    """`ab -n 10000 -c 100`; five seconds after it the log has two lines for each request, or one where the
    server cannot do more."""
    log = LATER_LOG
    time.sleep(5.5)
    before = log.read_text().count("\n")
    number = 10_000 if scale.requests > 10_000 else 500
    load = ab(server.port, number, 100)
    time.sleep(5.5)
    lines = log.read_text().count("\n") - before
    expected = number if server.name in READ_ONCE else 2 * number
    if lines != expected:
        raise AssertionError(f"{lines} lines are in the log, not {expected}")
    load.latency_ms["readings per request"] = lines / number
    log.write_text("")
    return load


def _hellos(port: int, number: int) -> list[float]:
    """Seconds that each of `number` new clients waits for its hello, one after the other."""
    seconds = []
    for _ in range(number):
        started = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while client.recv(1000):
                pass
        seconds.append(time.perf_counter() - started)
    return seconds


def _half_sent(server: Running, scale: Scale) -> Load:
    """New clients, one after the other, first alone, then beside many that have sent half of a request and no
    more."""
    os.sched_setaffinity(0, {LOAD_CORE})
    wanted = room_for(scale.idle)
    number = 2000 if scale.idle > 1000 else 100
    _hellos(server.port, number // 10)
    alone = statistics.median(_hellos(server.port, number))
    before = server.private_bytes
    clients = []
    try:
        for _ in range(wanted):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: half of a requ")
            clients.append(client)
        time.sleep(0.5)
        used = server.private_bytes - before
        server.measured_from = server.cpu_ns
        found = sorted(_hellos(server.port, number))
    finally:
        for client in clients:
            client.close()
        os.sched_setaffinity(0, set(CORES))
    latency = {
        "p50": found[number // 2] * 1e3,
        "p99": found[number * 99 // 100] * 1e3,
        "max": found[-1] * 1e3,
    }
    latency |= {"alone": alone * 1e3, "bytes per half-sent request": used / max(1, wanted)}
    return Load(number, sum(found), 0, latency, "one client at a time, in Python")


def _kept(server: Running, scale: Scale) -> Load:
    return wrk(server.port, scale.seconds, headers=FEW)


def _many(connections: int) -> Callable[[Running, Scale], Load]:
    """For longer, the more there are: the server also opens them in that time."""
    return lambda server, scale: wrk(
        server.port, scale.seconds * max(1, connections // 2000), room_for(connections), headers=FEW
    )


def _pipelined(server: Running, scale: Scale) -> Load:
    return wrk(server.port, scale.seconds, headers=FEW, script="pipeline.lua")


def _anew(server: Running, scale: Scale) -> Load:
    """A new connection for each request."""
    return ab(server.port, scale.requests)


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "keepalive",
            "Hello, keep-alive, 3 request headers: `wrk -t1 -c50`",
            "hello",
            HELLO,
            _kept,
            {"floor": 1.12, "node": 1 / 2.1, "bjoern": 0.87, "go fasthttp": 1.0},
        ),
        *(
            Experiment(
                f"keepalive-{number}",
                f"The same with {number:,} connection{'s' if number > 1 else ''}: `wrk -t1 -c{number}`",
                "hello",
                ("syncless", "floor", "node", "go fasthttp", "bjoern"),
                _many(number),
                {"floor": 1.3} if number > 1 else {},
            )
            for number in (1, 1000, 10_000)
        ),
        Experiment(
            "headers",
            "Hello, keep-alive, 12 request headers: `wrk -t1 -c50`",
            "hello",
            HELLO,
            lambda server, scale: wrk(server.port, scale.seconds, headers=BROWSER),
            {"floor": 1.15, "node": 1 / 2.1, "bjoern": 0.87, "go fasthttp": 1.0},
        ),
        Experiment(
            "connections",
            "Hello, a new connection for each request: `ab -c 50`",
            "hello",
            ("syncless", "floor, deferred accept", *HELLO[1:]),
            _anew,
            {"floor, deferred accept": 1.08, "node": 1 / 2.2, "bjoern": 0.75, "meinheld": 1.0},
        ),
        Experiment(
            "pipelined",
            "Hello, 16 requests at a time: `wrk -t1 -c50`, pipelined",
            "hello",
            ("syncless", "floor", "node", "go nethttp", "go fasthttp", "meinheld", "gevent"),
            _pipelined,
            {"floor": 1.3, "node": 1 / 12},
        ),
        *(
            Experiment(
                f"uring-{name}",
                f"The floor on io_uring and on epoll, {title}",
                "hello",
                (f"floor, io_uring{accept}", f"floor{accept}"),
                load,
                {f"floor{accept}": 0.9},
                ours=(f"floor, io_uring{accept}",),
                note="A ratio of 0.90 would be a reason for a backend on io_uring.",
            )
            for name, title, accept, load in (
                (
                    "keepalive",
                    "keep-alive: `wrk -t1 -c50`",
                    "",
                    _kept,
                ),
                (
                    "keepalive-1000",
                    "keep-alive: `wrk -t1 -c1000`",
                    "",
                    lambda server, scale: wrk(server.port, scale.seconds, 1000, headers=FEW),
                ),
                (
                    "connections",
                    "a new connection for each request: `ab -c 50`",
                    ", deferred accept",
                    _anew,
                ),
                (
                    "pipelined",
                    "16 requests at a time: `wrk -t1 -c50`, pipelined",
                    "",
                    _pipelined,
                ),
            )
        ),
        Experiment(
            "zerocopy",
            "A body of 1 MB with MSG_ZEROCOPY and without: `wrk -t1 -c50`",
            "big",
            ("floor, 1 MB, MSG_ZEROCOPY", "floor, 1 MB"),
            lambda server, scale: wrk(server.port, scale.seconds),
            {"floor, 1 MB": 0.9},
            ours=("floor, 1 MB, MSG_ZEROCOPY",),
            note="On loopback the kernel copies the bytes all the same, for the socket that receives them.",
        ),
        Experiment(
            "sleep",
            "An application that sleeps 10 ms, 1,000 connections: `wrk -t1 -c1000`",
            "sleep",
            ("syncless", "node", "go nethttp", "go fasthttp", "gevent"),
            lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
            {"node": 1 / 1.4, "go nethttp": 1.0},
        ),
        Experiment(
            "sleep-10000",
            "The same with 10,000 connections: `wrk -t1 -c10000`",
            "sleep",
            ("syncless", "node", "go nethttp", "go fasthttp", "gevent"),
            _many(10_000),
            {"go fasthttp": 1.0},
        ),
        *(
            Experiment(
                f"held-{way}",
                f"Others' requests while each hundredth holds its thread for 300 ms in {language}",
                f"held {way}",
                ("syncless", STANDBY, "granian", "gunicorn, gthread", "gevent"),
                lambda server, scale: held(server, scale.seconds),
                agrees="p99",
            )
            for way, language in (("c", "C"), ("python", "Python"))
        ),
        Experiment(
            "held-two",
            "The same in C while each fiftieth request holds its thread, so that two are held at once",
            "held c",
            ("syncless, two threads stand by", STANDBY, "granian", "gunicorn, gthread"),
            lambda server, scale: held(server, scale.seconds, 50),
            ours=("syncless, two threads stand by",),
            agrees="p99",
        ),
        Experiment(
            "held-idle",
            "A request that comes when its thread has just been held, beside 10,000 idle connections",
            "held c",
            (STANDBY,),
            lambda server, scale: relieved(server, scale.idle),
            ours=(STANDBY,),
        ),
        *(
            Experiment(
                f"standby-{name}",
                f"{title}, with a thread that stands by and without",
                application,
                ("syncless", STANDBY),
                load,
            )
            for name, title, application, load in (
                (
                    "keepalive",
                    "Hello, keep-alive: `wrk -t1 -c50`",
                    "hello",
                    _kept,
                ),
                (
                    "connections",
                    "Hello, a new connection for each request: `ab -c 50`",
                    "hello",
                    _anew,
                ),
                (
                    "sleep",
                    "An application that sleeps 10 ms: `wrk -t1 -c1000`",
                    "sleep",
                    lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
                ),
            )
        ),
        *(
            Experiment(
                f"recorder-{application}",
                f"{title}, with the record of its waits and without",
                application,
                ("syncless", "syncless, no wait recorded"),
                lambda server, scale, number=connections: wrk(
                    server.port, scale.seconds, connections=number, headers=FEW
                ),
                note="Rounds differ by more than the record costs; `make bench ARGS=instructions` counts it.",
            )
            for application, title, connections in (
                ("hello", "Hello, keep-alive: `wrk -t1 -c50`", 50),
                ("sleep", "An application that sleeps 10 ms: `wrk -t1 -c1000`", 1000),
            )
        ),
        Experiment(
            "flask",
            "Flask's hello: `wrk -t1 -c50`",
            "flask",
            ("syncless", "bjoern", "gevent"),
            _kept,
            {"bjoern": 1.0},
        ),
        Experiment(
            "django",
            "Django's hello: `wrk -t1 -c50`",
            "django",
            ("syncless", "bjoern", "gevent"),
            _kept,
            {"bjoern": 1.0, "gevent": 0.5},
        ),
        Experiment(
            "accesslog",
            "Hello with the access log on, 3 request headers: `wrk -t1 -c50`",
            "hello",
            ("syncless", "syncless, access log"),
            _kept,
        ),
        Experiment(
            "2009",
            "The experiment of 2009, hello: `ab -c 50`",
            "hello",
            ("syncless, raw", "syncless, raw, select", "syncless", "syncless, select", "node"),
            _anew,
        ),
        Experiment(
            "2009-kept",
            "The same with kept connections: `ab -k -c 50`",
            "hello",
            ("syncless", "syncless, select", "node"),
            lambda server, scale: ab(server.port, scale.requests, keep=True),
        ),
        Experiment(
            "backlog",
            "The experiment of 2009 with a listen backlog of 5, 100, 1024: `ab -c 50`",
            "hello",
            BACKLOGS,
            _anew,
        ),
        Experiment(
            "burst",
            "1,000 connections at once while the server is busy for a moment, "
            "with a listen backlog of 5, 100, 1024",
            "hello",
            BACKLOGS,
            lambda server, scale: burst(server, 1000),
            agrees="p99",
        ),
        Experiment(
            "slowlog",
            "A log that takes a second to write: `ab -n 100 -c 10` (20 requests for the synchronous one)",
            "slow log",
            ("log: none", "log: synchronous", "log: epoll thread", "log: thread per request", "log: tasklet"),
            _slow_log,
        ),
        Experiment(
            "slowlog-10000",
            "The same with 10,000 requests at once",
            "slow log",
            ("log: tasklet", "log: thread per request"),
            _ten_thousand,
        ),
        Experiment(
            "calllater",
            "Reads a file, logs it, hello, and reads again 5 s after the answer: `ab -n 10000 -c 100`",
            "call later",
            ("syncless, timer tasklet", "uwsgi, greenlet + asyncio", *READ_ONCE),
            _call_later,
            same_work={
                "uwsgi, greenlet + asyncio": "syncless, timer tasklet",
                "uwsgi, blocking": "syncless, blocking",
                "uwsgi, 2 threads": "syncless, blocking",
            },
        ),
        Experiment(
            "native",
            "Hello by a native handler, kept connections: `wrk -t1 -c50`",
            "hello",
            (
                NATIVE,
                "floor",
                "lwan, 1",
                "libtask",
                "go fasthttp",
                "go nethttp",
                "node",
                "uvloop protocol, 1",
                "syncless",
            ),
            _kept,
            {"floor": 1.05, "lwan, 1": 0.95, "go fasthttp": 0.8, "go nethttp": 0.42},
            ours=(NATIVE,),
        ),
        Experiment(
            "native-coroutines",
            "Hello by a native handler beside coroutine libraries of C: `wrk -t1 -c50`",
            "hello",
            (NATIVE, "libtask", "statethreads", "lthread", "libdill"),
            _kept,
            ours=(NATIVE,),
        ),
        Experiment(
            "native-pipelined",
            "The same, 16 requests at a time",
            "hello",
            (NATIVE, "floor", "go fasthttp", "syncless"),
            _pipelined,
            {"floor": 1.15, "go fasthttp": 0.5},
            ours=(NATIVE,),
        ),
        Experiment(
            "native-fib",
            "fibonacci(10^6) in 32 bits by a native handler: `wrk -t1 -c50`",
            "fib",
            (NATIVE, "floor, fibonacci", "go fasthttp", "go nethttp", "node", "syncless, 1 workers, Cython"),
            _kept,
            {"floor, fibonacci": 1.02},
            ours=(NATIVE,),
        ),
        Experiment(
            "native-threads",
            "Hello by native handlers on two cores, which the load shares: `wrk -t2 -c40`",
            "hello",
            (
                "syncless native, 2",
                "syncless native, 1",
                "lwan, 2",
                "go nethttp, 2",
                "go fasthttp, 2",
                "node cluster, 2",
                "uvloop protocol, 2",
                "syncless, 2 workers",
            ),
            lambda server, scale: wrk(server.port, scale.seconds, connections=40, headers=FEW, threads=2),
            {"syncless native, 1": 1.03},
            ours=("syncless native, 2",),
        ),
        Experiment(
            "native-beside",
            "Hello in Python beside a native handler: `wrk -t1 -c50`",
            "hello",
            ("syncless beside native", "syncless"),
            _kept,
            {"syncless": 1.03},
            ours=("syncless beside native",),
        ),
        Experiment(
            "native-idle",
            "Beside 10,000 idle connections of native handlers",
            "hello",
            (NATIVE,),
            _idle,
            ours=(NATIVE,),
        ),
        *(
            Experiment(
                f"cores-{what}-{number}",
                f"{text} on {number} core{'s' if number > 1 else ''}: `wrk -t {number} -c 40`",
                application,
                (
                    f"syncless, {number} workers",
                    *((f"syncless, {number} workers, Cython",) if application == "fib" else ()),
                    f"go nethttp, {number}",
                    f"go fasthttp, {number}",
                    f"node cluster, {number}",
                    f"uvloop protocol, {number}",
                    f"lwan, {number}",
                ),
                lambda server, scale, number=number: wrk(
                    server.port, scale.seconds, connections=40, headers=FEW, threads=number
                ),  # type: ignore[misc]
                ours=(
                    f"syncless, {number} workers",
                    *((f"syncless, {number} workers, Cython",) if application == "fib" else ()),
                ),
            )
            for number in (1, 2)
            for what, text, application in (
                ("hello", "Hello", "hello"),
                ("fib", "fibonacci(10^6) in 32 bits", "fib"),
            )
        ),
        *(
            Experiment(f"wsgi-{name}", title, application, SERVERS, load)
            for name, title, application, load in (
                (
                    "hello",
                    "Hello: `wrk -t1 -c50`",
                    "hello",
                    _kept,
                ),
                (
                    "json",
                    "10 kB of JSON posted, a short answer: `wrk -t1 -c50`",
                    "json",
                    lambda server, scale: wrk(server.port, scale.seconds, headers=FEW, script="post.lua"),
                ),
                (
                    "big",
                    "A body of 1 MB: `wrk -t1 -c50`",
                    "big",
                    _kept,
                ),
                (
                    "sleep",
                    "10 ms of sleep, 1,000 connections: `wrk -t1 -c1000`",
                    "sleep",
                    lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
                ),
                (
                    "logged",
                    "Hello with the server's own access log, into a file: `wrk -t1 -c50`",
                    "logged",
                    _kept,
                ),
                (
                    "pipelined",
                    "16 requests at a time: `wrk -t1 -c50`, pipelined",
                    "hello",
                    _pipelined,
                ),
            )
        ),
        Experiment(
            "halfsent",
            "Hello on a new connection beside 10,000 half-sent requests, one client at a time",
            "hello",
            ("syncless", "node", "go nethttp", "gevent"),
            _half_sent,
        ),
        Experiment(
            "idle",
            "Hello beside 10,000 idle connections: `wrk -t1 -c50`",
            "hello",
            ("node", "go nethttp", *SERVERS, "uwsgi, router"),
            _idle,
        ),
        *ASGI,
        *HTTP2,
        *ARENA,
    )
}
