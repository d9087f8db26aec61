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
from benchmark.experiment import CPU, MEMORY, P99, RATE, Experiment, Scale
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
WORKERS = ("gunicorn, gevent", "gunicorn, gthread")
FRAMEWORKS = ("syncless", "bjoern", "gevent", "granian", *WORKERS, "peregrine")
"""Servers with Flask and Django."""
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
            "Hello: keep-alive, 3 request headers, `wrk -t1 -c50`",
            "hello",
            HELLO,
            _kept,
            {"floor": 1.12, "node": 1 / 2.1, "bjoern": 0.87, "go fasthttp": 1.0},
        ),
        *(
            Experiment(
                f"keepalive-{number}",
                f"Hello on {number:,} connection{'s' if number > 1 else ''}: `wrk -t1 -c{number}`",
                "hello",
                ("syncless", "floor", "node", "go fasthttp", "bjoern"),
                _many(number),
                {"floor": 1.3} if number > 1 else {},
            )
            for number in (1, 1000, 10_000)
        ),
        Experiment(
            "headers",
            "Hello with 12 request headers: keep-alive, `wrk -t1 -c50`",
            "hello",
            HELLO,
            lambda server, scale: wrk(server.port, scale.seconds, headers=BROWSER),
            {"floor": 1.15, "node": 1 / 2.1, "bjoern": 0.87, "go fasthttp": 1.0},
        ),
        Experiment(
            "connections",
            "Hello on new connections: a connection for each request, `ab -c 50`",
            "hello",
            ("syncless", "floor, deferred accept", *HELLO[1:]),
            _anew,
            {"floor, deferred accept": 1.08, "node": 1 / 2.2, "bjoern": 0.75, "meinheld": 1.0},
        ),
        Experiment(
            "pipelined",
            "Hello, pipelined: 16 requests at a time, `wrk -t1 -c50`",
            "hello",
            ("syncless", "floor", "node", "go nethttp", "go fasthttp", "meinheld", "gevent"),
            _pipelined,
            {"floor": 1.3, "node": 1 / 12},
        ),
        *(
            Experiment(
                f"uring-{name}",
                f"io_uring and epoll, {title}",
                "hello",
                (f"floor, io_uring{accept}", f"floor{accept}"),
                load,
                {f"floor{accept}": 0.9},
                ours=(f"floor, io_uring{accept}",),
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
                    "1,000 connections: keep-alive, `wrk -t1 -c1000`",
                    "",
                    lambda server, scale: wrk(server.port, scale.seconds, 1000, headers=FEW),
                ),
                (
                    "connections",
                    "new connections: a connection for each request, `ab -c 50`",
                    ", deferred accept",
                    _anew,
                ),
                (
                    "pipelined",
                    "pipelined: 16 requests at a time, `wrk -t1 -c50`",
                    "",
                    _pipelined,
                ),
            )
        ),
        Experiment(
            "zerocopy",
            "MSG_ZEROCOPY: a body of 1 MB with it and without, `wrk -t1 -c50`",
            "big",
            ("floor, 1 MB, MSG_ZEROCOPY", "floor, 1 MB"),
            lambda server, scale: wrk(server.port, scale.seconds),
            {"floor, 1 MB": 0.9},
            ours=("floor, 1 MB, MSG_ZEROCOPY",),
            note="On loopback the kernel copies the bytes all the same, for the socket that receives them.",
        ),
        Experiment(
            "sleep",
            "Sleep: 10 ms in each request, `wrk -t1 -c1000`",
            "sleep",
            ("syncless", "node", "go nethttp", "go fasthttp", "gevent"),
            lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
            {"node": 1 / 1.4, "go nethttp": 1.0},
            measure=RATE,
        ),
        Experiment(
            "sleep-10000",
            "Sleep, 10,000 connections: 10 ms in each request, `wrk -t1 -c10000`",
            "sleep",
            ("syncless", "node", "go nethttp", "go fasthttp", "gevent"),
            _many(10_000),
            {"go fasthttp": 1.0},
            measure=RATE,
        ),
        *(
            Experiment(
                f"held-{way}",
                f"Beside a hold in {language}: each hundredth request holds its thread for 300 ms; the "
                "latency is that of the others",
                f"held {way}",
                ("syncless", STANDBY, "granian", "gevent", *WORKERS, "peregrine", "bjoern"),
                lambda server, scale: held(server, scale.seconds),
                agrees="p99",
                measure=P99,
            )
            for way, language in (("c", "C"), ("python", "Python"))
        ),
        Experiment(
            "held-two",
            "Beside two holds: each fiftieth request holds its thread for 300 ms in C, so that two overlap; "
            "the latency is that of the others",
            "held c",
            ("syncless, two threads stand by", STANDBY, "granian", "gunicorn, gthread"),
            lambda server, scale: held(server, scale.seconds, 50),
            ours=("syncless, two threads stand by",),
            agrees="p99",
            measure=P99,
        ),
        Experiment(
            "held-idle",
            "Takeover: a request arrives just after its thread was held, beside 10,000 idle connections",
            "held c",
            (STANDBY,),
            lambda server, scale: relieved(server, scale.idle),
            ours=(STANDBY,),
            measure=P99,
        ),
        *(
            Experiment(
                f"standby-{name}",
                f"Standby, {title}, with a standby thread and without",
                application,
                ("syncless", STANDBY),
                load,
            )
            for name, title, application, load in (
                (
                    "keepalive",
                    "hello: keep-alive, `wrk -t1 -c50`",
                    "hello",
                    _kept,
                ),
                (
                    "connections",
                    "new connections: hello, a connection for each request, `ab -c 50`",
                    "hello",
                    _anew,
                ),
                (
                    "sleep",
                    "sleep: 10 ms in each request, `wrk -t1 -c1000`",
                    "sleep",
                    lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
                ),
            )
        ),
        *(
            Experiment(
                f"recorder-{application}",
                f"Recorder, {title}, with the record of the waits and without",
                application,
                ("syncless", "syncless, no wait recorded"),
                lambda server, scale, number=connections: wrk(
                    server.port, scale.seconds, connections=number, headers=FEW
                ),
                note="Rounds differ by more than the record costs; `make bench ARGS=instructions` counts it.",
            )
            for application, title, connections in (
                ("hello", "hello: keep-alive, `wrk -t1 -c50`", 50),
                ("sleep", "sleep: 10 ms in each request, `wrk -t1 -c1000`", 1000),
            )
        ),
        Experiment(
            "flask",
            "Flask: hello, `wrk -t1 -c50`",
            "flask",
            FRAMEWORKS,
            _kept,
            {"bjoern": 1.0},
        ),
        Experiment(
            "django",
            "Django: hello, `wrk -t1 -c50`",
            "django",
            FRAMEWORKS,
            _kept,
            {"bjoern": 1.0, "gevent": 0.5},
        ),
        Experiment(
            "django-database",
            "Django with a database: one row of SQLite by its key, by the ORM, `wrk -t1 -c50`",
            "django database",
            FRAMEWORKS,
            _kept,
        ),
        Experiment(
            "accesslog",
            "Access log: hello, 3 request headers, `wrk -t1 -c50`",
            "hello",
            ("syncless", "syncless, access log"),
            _kept,
        ),
        Experiment(
            "2009",
            "Hello as in 2009: a connection for each request, `ab -c 50`",
            "hello",
            ("syncless, raw", "syncless, raw, select", "syncless", "syncless, select", "node"),
            _anew,
        ),
        Experiment(
            "2009-kept",
            "Keep-alive: hello, `ab -k -c 50`",
            "hello",
            ("syncless", "syncless, select", "node"),
            lambda server, scale: ab(server.port, scale.requests, keep=True),
        ),
        Experiment(
            "backlog",
            "Listen backlog: hello with 5, 100 and 1024, a connection for each request, `ab -c 50`",
            "hello",
            BACKLOGS,
            _anew,
        ),
        Experiment(
            "burst",
            "Burst: 1,000 connections at once while the server is busy, listen backlog 5, 100 and 1024",
            "hello",
            BACKLOGS,
            lambda server, scale: burst(server, 1000),
            agrees="p99",
            measure=P99,
        ),
        Experiment(
            "slowlog",
            "Slow log: a line takes a second to write, `ab -n 100 -c 10` (`-n 20` for the synchronous one)",
            "slow log",
            ("log: none", "log: synchronous", "log: epoll thread", "log: thread per request", "log: tasklet"),
            _slow_log,
        ),
        Experiment(
            "slowlog-10000",
            "Slow log, 10,000 requests: all at once, a line takes a second to write",
            "slow log",
            ("log: tasklet", "log: thread per request"),
            _ten_thousand,
        ),
        Experiment(
            "calllater",
            "Work after the response: reads a file, logs it, says hello, and reads again 5 s later, "
            "`ab -n 10000 -c 100`",
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
            "Native hello: keep-alive, `wrk -t1 -c50`",
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
            "Coroutine libraries in C: hello, `wrk -t1 -c50`",
            "hello",
            (NATIVE, "libtask", "statethreads", "lthread", "libdill"),
            _kept,
            ours=(NATIVE,),
        ),
        Experiment(
            "native-pipelined",
            "Native hello, pipelined: 16 requests at a time, `wrk -t1 -c50`",
            "hello",
            (NATIVE, "floor", "go fasthttp", "syncless"),
            _pipelined,
            {"floor": 1.15, "go fasthttp": 0.5},
            ours=(NATIVE,),
        ),
        Experiment(
            "native-fib",
            "Native Fibonacci: fibonacci(10^6) in 32 bits, `wrk -t1 -c50`",
            "fib",
            (NATIVE, "floor, fibonacci", "go fasthttp", "go nethttp", "node", "syncless, 1 workers, Cython"),
            _kept,
            {"floor, fibonacci": 1.02},
            ours=(NATIVE,),
        ),
        Experiment(
            "native-threads",
            "Two native threads: hello on two cores, which the load shares, `wrk -t2 -c40`",
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
            "Python beside a native handler: hello, `wrk -t1 -c50`",
            "hello",
            ("syncless beside native", "syncless"),
            _kept,
            {"syncless": 1.03},
            ours=("syncless beside native",),
        ),
        Experiment(
            "native-idle",
            "Native hello beside idle connections: 10,000 of them, `wrk -t1 -c50`",
            "hello",
            (NATIVE,),
            _idle,
            ours=(NATIVE,),
            measure=MEMORY,
        ),
        *(
            Experiment(
                f"cores-{what}-{number}",
                f"{text} on {number} core{'s' if number > 1 else ''}: {load}`wrk -t {number} -c 40`",
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
            for what, text, load, application in (
                ("hello", "Hello", "", "hello"),
                ("fib", "Fibonacci", "fibonacci(10^6) in 32 bits, ", "fib"),
            )
        ),
        *(
            Experiment(
                f"wsgi-{name}", title, application, SERVERS, load, measure=RATE if name == "sleep" else CPU
            )
            for name, title, application, load in (
                (
                    "hello",
                    "Hello: `wrk -t1 -c50`",
                    "hello",
                    _kept,
                ),
                (
                    "json",
                    "JSON posted: 10 kB, a short response, `wrk -t1 -c50`",
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
                    "Sleep: 10 ms in each request, `wrk -t1 -c1000`",
                    "sleep",
                    lambda server, scale: wrk(server.port, scale.seconds, connections=1000, headers=FEW),
                ),
                (
                    "logged",
                    "Hello, logged: each server writes its own access log to a file, `wrk -t1 -c50`",
                    "logged",
                    _kept,
                ),
                (
                    "pipelined",
                    "Hello, pipelined: 16 requests at a time, `wrk -t1 -c50`",
                    "hello",
                    _pipelined,
                ),
            )
        ),
        Experiment(
            "halfsent",
            "Half-sent requests: hello on new connections beside 10,000 of them, one client at a time",
            "hello",
            ("syncless", "node", "go nethttp", "gevent"),
            _half_sent,
        ),
        Experiment(
            "idle",
            "Idle connections: hello beside 10,000 of them, `wrk -t1 -c50`",
            "hello",
            ("node", "go nethttp", *SERVERS, "uwsgi, router"),
            _idle,
            measure=MEMORY,
        ),
        *ASGI,
        *HTTP2,
        *ARENA,
    )
}
