"""One episode: a server, its clients, and what must be so when they have left.

Takes: a seed, in a process that forks.py has prepared. Gives: an Outcome, or Wrong with what was found. After
each episode:

- every request of a good client has had exactly one whole answer, its own, and soon (clients.py);
- a connection that asks for nothing is closed, whatever was said on it before (intruders.py);
- a second after the last client no call of the application runs;
- half a minute later the server owns nothing: no connection, stream, buffer, deadline; nor any descriptor;
- after its stop the loop has the tasklets that it began with, and no timer;
- nobody was told of an error, and the log has none but the application's.
"""

import collections
import contextlib
import gc
import os
import random
import re
import ssl
import sys
import time

import syncless
from syncless._core import explore
from syncless._core.calls.filesystems import set_mode
from syncless.http.acceptor import Acceptor, join, take
from syncless.io import socket
from syncless.wsgi import Server
from tests import virtualtime
from tests.simulate.application import Application
from tests.simulate.clients import Good, Wrong, random_of, views
from tests.simulate.crowds import Crowd
from tests.simulate.intruders import Intruder
from tests.slowlog import SlowLog

LONGEST = 20.0
"""Virtual seconds after which no connection that has moved is left: longer than each of the limits below."""
QUIET = 30.0
"""Virtual seconds after the last client after which nothing may be left."""
MOST_SKIPPED = 1.0
"""Virtual seconds that may pass while something runs: fewer than any limit of the server."""
LIMITS = {
    **{f"{name}_seconds": 3 for name in ("head", "body", "write", "linger", "ping")},
    "greeting_seconds": 3,
    "queue_seconds": 8,
    "idle_seconds": 5,
    "stop_seconds": 5,
    "linger_idle_seconds": 2,
}
OURS = re.compile(
    r"^(?:(?:Assertion|System|Attribute|Type|Key|Index|UnboundLocal|Reference|Runtime|Recursion|Memory)Error\b.*"
    r"|Exception ignored .*)$",
    re.M,
)
"""Lines of the log that no application of ours has on purpose."""
STAYS = re.compile("_tend|asyncio loop")
"""Tasklets that serve a thread until it ends."""

Certificate = collections.namedtuple("Certificate", "authority server")
Outcome = collections.namedtuple("Outcome", "decisions digest requests answers skipped faults")
_listdir, _readlink = os.listdir, os.readlink  # not those of the patch


class World:
    """What the clients of an episode have in common."""

    def __init__(self, name, chance, calm):
        self.name, self.chance, self.calm = name, chance, calm
        self.connections = self.requests = self.answers = 0
        self.skipped = 0.0
        self.places = []
        """(prefix, views) of each application."""
        self.killed = set()
        """Members of crowds."""
        self.scarce = False
        """Whether descriptors are: then the server closes connections of good clients, too."""
        self.limited = False
        """Whether few requests run at a time: then some are late, or refused."""
        self.stops = False
        """Whether the server may stop while clients are there."""
        self.moves = False
        """Whether connections move to another listener."""
        self.half_closes = False
        """Whether a client that says no more has its answers all the same."""
        self.native = None
        """The native handlers, if there are some."""
        self.tls = None
        """A Certificate, if the server speaks TLS."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(syncless.sleep)

    def pause(self, chance):
        self.sleep(chance.choice([0, 0, 0, 0.0005, 0.004, 0.02]))

    def number(self):
        self.requests += 1
        return self.requests

    def connect(self, kind, protocol="http/1.1"):
        """By their names the calls that fail are told from those that must not (failing_calls.c). A client
        with a protocol speaks TLS if the server does."""
        self.connections += 1
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(20)
        try:
            sock.bind(f"\0{kind}-{self.connections:06}-{self.name}")
            sock.connect(f"\0server-{self.name}")
            if self.tls and protocol:
                context = ssl.create_default_context(cafile=self.tls.authority)
                context.set_alpn_protocols([protocol])
                sock = context.wrap_socket(sock, server_hostname="a")
        except BaseException:
            sock.close()
            raise
        return sock

    def kill(self, victim):
        self.killed.add(victim)
        victim.kill()

    def skip(self, seconds):
        """Time passes while something runs."""
        if self.skipped + seconds <= MOST_SKIPPED:
            self.skipped += seconds
            virtualtime.let_pass(seconds)


class Episode:
    def __init__(self, seed, faults, certificate, handlers, *, explores, calm=False):
        """calm: good clients only, and what must stay cold for later episodes is not used."""
        self.seed, self.faults, self.explores, self.calm = seed, faults, explores, calm
        self.chance = random.Random(seed)
        self.world = World(f"{os.getppid():07}", self.chance, calm)
        self.reports = []
        self.home, self.used_up = syncless.Event(), syncless.Event()
        if certificate and self.chance.random() < 0.25:
            self.world.tls = certificate
        elif handlers and self.chance.random() < 0.3:
            self.world.native = handlers

    def run(self):
        chance, world = self.chance, self.world
        if self.explores:
            explore.explore(self.seed * 2 + 1)
        if not self.calm:
            world.scarce = self.faults.begin(self.seed, chance)
        set_mode(chance.choice(["direct", "pool"]))  # not by what a file system has taken
        before = set(syncless.tasklets())
        log = SlowLog(random_of(chance))
        application = Application(log.stream)
        server = self.server(application, log)
        syncless.set_error_handler(lambda where, error: self.reports.append(f"{where}: {error!r}"))
        helpers = []
        try:
            server.start()
            held = descriptors()
            if self.explores:
                helpers.append(syncless.spawn(self.watch, random_of(chance)))
            if not self.calm and chance.random() < 0.5:
                helpers.append(syncless.spawn(self.kill, random_of(chance)))
            moving = syncless.spawn(self.move, server, random_of(chance))
            stopper = syncless.spawn(self.stop, server, random_of(chance)) if world.stops else None
            self.clients()
            injected = self.faults.end()
            for each in helpers:
                each.kill()
            self.home.set()
            moving.result()
            if stopper is not None:
                stopper.result()
            self.after(server, application, held)
        finally:
            self.faults.end()
            server.stop()
            went = explore.explored()
            explore.explore(0)
        application.close()
        text = log.close()
        self.at_last(server, before, text)
        return Outcome(*went, world.requests, world.answers, world.skipped, injected)

    def server(self, application, log):
        chance, world = self.chance, self.world
        kind = chance.choice(["wsgi", "wsgi", "asgi", "mounted"])
        served = {
            "wsgi": application,
            "asgi": application.asgi,
            "mounted": {"/": application, "/asgi": application.asgi},
        }[kind]
        world.places = [("", views("asgi" if kind == "asgi" else "wsgi"))]
        if kind == "mounted":
            world.places.append(("/asgi", views("asgi")))
        world.limited = not self.calm and chance.random() < 0.15
        world.stops = not self.calm and chance.random() < 0.15
        on_hangup = chance.choice(["continue", "stop", "stop-all"])
        world.moves = (
            kind == "wsgi" and not (world.tls or world.native or world.stops) and chance.random() < 0.4
        )
        world.half_closes = kind == "wsgi" and on_hangup == "continue" and not world.tls
        return Server(
            served,
            bind=f"{'https://' if world.tls else ''}unix:@server-{world.name}",
            http2="tls" if world.native else "cleartext",  # of which native handlers know nothing
            certfile=world.tls and world.tls.server,
            error_log=log.stream,
            on_hangup=on_hangup,
            streams=chance.choice([100, 100, 5]),
            native=world.native,
            native_threads=1,
            requests=chance.randrange(1, 5) if world.limited else 0,
            **LIMITS,
        )

    def clients(self):
        """All of them, until the last has left."""
        chance, world = self.chance, self.world
        good = [Good(world, random_of(chance)) for _ in range(chance.randrange(1, 5))]
        bad = [Intruder(world, random_of(chance)) for _ in range(0 if self.calm else chance.randrange(1, 7))]
        crowds = [Crowd(world, random_of(chance)) for _ in range(chance.choice([0, 1, 1, 3]))]
        running = [syncless.spawn(each.run) for each in (*good, *bad, *crowds)]
        for each in running:
            each.result()

    def stop(self, server, chance):
        """A worker that is recycled: it ends after so many requests."""
        server.limit_requests(chance.randrange(1, 12), self.used_up.set)
        if not self.used_up.wait(chance.choice([0.01, 1])):
            return
        server.stop()

    def move(self, server, chance):
        """Connections that ask for nothing just now move to a second listener and back, as they do between
        threads that stand by."""
        if not self.world.moves:
            return
        (here,) = server.listeners
        there = server.listener_for(server.application_at(server.address), server.address, False)
        join(here, there)
        with socket.socket(socket.AF_UNIX) as sock:
            acceptor = Acceptor(there, sock.fileno())
            acceptor.rest()
            while not self.home.wait(chance.choice([0.0001, 0.001, 0.01])):
                source, target = (here, there) if chance.random() < 0.5 else (there, here)
                take(source, target, chance.choice([1, 2, 100]))
            take(there, here, 100)
            syncless.sleep(LONGEST)
            take(there, here, 100)
            if left := {name: number for name, number in there.census().items() if number}:
                raise Wrong(f"{LONGEST:.0f} s after the last client a listener beside has {left}")
            acceptor.close()
            there.close()

    # -- what comes in between -----------------------------------------------------------------------------

    def watch(self, chance):
        """At wake-ups that the seed chooses: the woken is killed before it runs, or another one is, or time
        passes."""
        while True:
            woken = explore.next_woken()
            what = chance.random()
            if what < 0.4 and is_victim(woken):
                self.world.kill(woken)
            elif 0.4 < what < 0.7:
                self.kill_one(chance)
            elif what > 0.8:
                self.world.skip(chance.choice([0.00005, 0.0005, 0.004, 0.02, 0.3]))
            del woken

    def kill(self, chance):
        """From time to time."""
        while True:
            syncless.sleep(chance.choice([0, 0, 0.0003, 0.001, 0.02, 1]))
            if chance.random() < 0.5:
                self.kill_one(chance)

    def kill_one(self, chance):
        """What nobody counts on, where it is just now: a request of a bad client, a member of a crowd."""
        if victims := [each for each in syncless.tasklets() if is_victim(each)]:
            self.world.kill(chance.choice(victims))

    # -- what must be so -----------------------------------------------------------------------------------

    def after(self, server, application, held):
        """The last client has just left."""
        syncless.sleep(1)
        if application.running:
            raise Wrong(f"1 s after the last client: {application.running} calls run: {self.tasklets()}")
        syncless.sleep(QUIET)
        if left := {name: number for name, number in server.census().items() if number}:
            raise Wrong(f"{QUIET:.0f} s after the last client: {left}: {self.tasklets()}")
        if application.wrong:
            raise Wrong(application.wrong[0])
        self.world.killed.clear()  # what ended them has frames, and those had files
        gc.collect()
        if new := descriptors() - held:
            raise Wrong(f"descriptors are left: {sorted(new)}")

    def at_last(self, server, before, text):
        """The server has stopped."""
        gc.collect()
        syncless.sleep(0.01)
        if left := {name: number for name, number in server.census().items() if number}:
            raise Wrong(f"after the stop: {left}")
        own = syncless.current()
        left = [each for each in syncless.tasklets() if each not in before and each is not own]
        if left := [each for each in left if not STAYS.search(str(each))]:
            raise Wrong(f"tasklets are left: {left}")
        if reports := [each for each in self.reports if "cannot wait for" not in each]:  # a call that failed
            raise Wrong(f"an error that nobody caught: {reports}")
        if found := OURS.search(text):
            print(text, file=sys.stderr)
            raise Wrong(f"the log says {found.group()}")

    def tasklets(self):
        with contextlib.suppress(Exception):
            for each in syncless.tasklets():
                print(each, file=sys.stderr)
        return [str(each) for each in syncless.tasklets() if "simulate" not in str(each)]


def is_victim(tasklet):
    return "/victim" in str(tasklet)


def descriptors():
    """The files behind them."""
    found = collections.Counter()
    for each in _listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one by which they are listed
            found[_readlink(f"/proc/self/fd/{each}").partition("/proc/")[0]] += 1
    del found[""]
    return found
