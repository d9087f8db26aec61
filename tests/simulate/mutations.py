"""Faults made on purpose: whether the simulator finds them.

``python -m tests.simulate.mutations --seconds 60 [NAME ...]`` copies the checkout, builds it with assertions,
and takes one row of the table after another: it changes the source, builds, and runs the simulator until it
finds something; with `--plain` once more, with the usual schedule. What it does not find shows what to add.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
TREE = ROOT / "build" / "mutated"


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    """Stands there once."""
    new: str
    also: tuple[tuple[str, str, str], ...] = ()
    """The same of other places, where two things guard against one fault."""

    def changes(self):
        return [(self.file, self.old, self.new), *self.also]


H2 = "syncless/http/http2/"
LIBRARY = (
    H2 + "stream.pyx",
    "        if self.open and self.session.library != NULL:\n            nghttp2_submit_response(self.s",
    "        if True:\n            nghttp2_submit_response(self.s",
)
OFFER = "        self.websocket = WebSocket(self.handler, ScopeRequest(self.scope), limits, False)\n"
CHECK = """\
        from syncless.http.errors import ClientError
        try:
            self.websocket.check()
        except ClientError:
            pass
"""
HANDSHAKE = ("syncless/apps/asgi/exchange/websocket.pxi", OFFER, OFFER + CHECK)
MUTATIONS = [
    Mutation("a response that is replaced goes to a library that has been freed", *LIBRARY),
    Mutation(
        "the same, and an entry of the error log lets others run",
        *LIBRARY,
        also=(
            (
                "syncless/http/log/errorlog.py",
                "                self.stream.write(text)\n",
                "                current() and sleep(0)\n                self.stream.write(text)\n",
            ),
        ),
    ),
    Mutation("the loop itself imports the library of WebSockets", *HANDSHAKE),
    Mutation(
        "the same, and it waits for a lock that a tasklet of its own holds",
        *HANDSHAKE,
        also=(
            (
                "syncless/patches/types/locks.pyx",
                "    if not acquire_alone(self, original_lock_acquire, deadline):\n",
                "    if not original_lock_acquire(self, True, seconds_to(deadline)):\n",
            ),
        ),
    ),
    Mutation(
        "a stream that is reset while it runs gives its connection no deadline",
        H2 + "stream.pyx",
        "return self.session.soon()                  # also if it is closed: its connection may be idle now",
        "return self.session.soon() if self.open else 0",
    ),
    Mutation(
        "what sends nothing does not ask whether the client has left",
        H2 + "stream.pyx",
        "        self.check_open(peer)\n        while size:",
        "        while size:",
    ),
    Mutation(
        "a reader is not woken when its stream is closed",
        H2 + "stream.pyx",
        "        wake_all(&self.readers)\n        wake_all(&self.writers)\n        if exchange is None:",
        "        wake_all(&self.writers)\n        if exchange is None:",
    ),
    Mutation(
        "a writer is not woken when its stream is closed",
        H2 + "stream.pyx",
        "        wake_all(&self.readers)\n        wake_all(&self.writers)\n        if exchange is None:",
        "        wake_all(&self.readers)\n        if exchange is None:",
    ),
    Mutation(
        "a torn response counts as running for ever",
        H2 + "stream.pyx",
        "        session.running -= 1\n        session.listener.http2_streams -= 1\n        wake_all(&self.",
        "        session.running -= not self.bytes.torn\n"
        "        session.listener.http2_streams -= 1\n        wake_all(&self.",
    ),
    Mutation(
        "a stream of a lost connection keeps its reference",
        H2 + "session.pyx",
        "                Py_DECREF(stream)\n        for stream in streams:",
        "        for stream in streams:",
    ),
    Mutation(
        "what was closed while frames were made is not acted upon",
        H2 + "session.pyx",
        "        if self.first_closed != NULL:\n            self.act(loop)\n        self.keep_time()",
        "        self.keep_time()",
    ),
    Mutation(
        "the rest of the frames waits for the client's next event",
        H2 + "session.pyx",
        "nghttp2_session_want_write(self.library) or has_input(&self.connection.stream)):",
        "has_input(&self.connection.stream)):",
    ),
    Mutation(
        "a lost session is used again",
        H2 + "session.pyx",
        "        nghttp2_session_del(self.library)\n        self.library = NULL\n",
        "        nghttp2_session_del(self.library)\n",
    ),
    Mutation(
        "a torn connection keeps its descriptor",
        "syncless/http/stream.pyx",
        "            make_reset(stream.fd)\n        close_fd(stream.fd)",
        "            make_reset(stream.fd)\n        else:\n            close_fd(stream.fd)",
    ),
    Mutation(
        "the loop does not forget a descriptor that is closed",
        "syncless/http/stream.pyx",
        "        loop.fds.forget(stream.fd)\n        if stream.torn:\n            make_reset(stream.fd)\n",
        "        if stream.torn:\n            make_reset(stream.fd)\n",
    ),
    Mutation(
        "an interrupted send counts as a client that has left",
        "syncless/http/peer.pyx",
        "                    self.wait_writable()\n                elif errno != EINTR:",
        "                    self.wait_writable()\n                else:",
    ),
    Mutation(
        "a short send of what lies ahead counts as a whole one",
        "syncless/http/peer.pyx",
        "                done += n - ahead\n            else:\n                stream.out_sent += n",
        "                done += n - ahead\n            else:\n                stream.out_sent += ahead",
    ),
    Mutation(
        "who waits for the body of a request that has ended is not woken",
        "syncless/http/peer.pyx",
        "            if entry.readers.first != NULL:\n                wake_all(&entry.readers)\n",
        "",
    ),
    Mutation(
        "a request that ends keeps its place",
        "syncless/http/connection.pyx",
        "        exchange.run_inline(loop)                # may park; others run meanwhile\n"
        "        listener.admission.end(exchange.rank, exchange.started)\n",
        "        exchange.run_inline(loop)                # may park; others run meanwhile\n"
        "        if not self.stream.gone:\n"
        "            listener.admission.end(exchange.rank, exchange.started)\n",
    ),
    Mutation(
        "a lock is not tried again after its wait",
        "syncless/patches/types/locks.pyx",
        "        while not attempt(self):                # an OS thread may have been faster\n",
        "        if not attempt(self):\n",
    ),
    Mutation(
        "a lock whose next holder is killed wakes nobody",
        "syncless/patches/types/locks.pyx",
        "        if me.handed_over:\n            wake_first(self)                    # killed after",
        "        if False:\n            wake_first(self)                    # killed after",
    ),
    Mutation(
        "a lock wakes a waiter that was killed, and no other",
        "syncless/patches/types/locks.pyx",
        "                    woken_by_holder(first)\n                break\n",
        "                    woken_by_holder(first)\n            break\n",
    ),
    Mutation(
        "a tasklet that was woken leaves its deadline behind",
        "syncless/_core/scheduler.pyx",
        "        if tasklet.timer.index >= 0:\n            self.timers.remove(&tasklet.timer)\n"
        "        if tasklet.recorder",
        "        if tasklet.recorder",
    ),
    Mutation(
        "an exception that was thrown at a woken tasklet is lost",
        "syncless/_core/scheduler.pyx",
        "    return 0 if tasklet.pending is None else self.raise_pending(tasklet)\n",
        "    return 0 if tasklet.pending is None or tasklet.handed_over else self.raise_pending(tasklet)\n",
    ),
    Mutation(
        "a receive() of ASGI is not woken when its client leaves",
        "syncless/apps/asgi/exchange.pyx",
        "            engine.wake(self, None)",
        "            pass",
    ),
]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.simulate.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--seconds", type=float, default=60, help="for which each is looked for")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="look with the usual schedule, too")
    given = parser.parse_args()
    TREE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tests/copy.sh", TREE], cwd=ROOT, check=True)
    for file in {file for mutation in MUTATIONS for file, _, _ in mutation.changes()}:
        (TREE / file).touch()  # an earlier run may have left what it built of a mutation
    build()
    missed = 0
    for mutation in MUTATIONS:
        if given.names and not any(name in mutation.name for name in given.names):
            continue
        before = {file: (TREE / file).read_text() for file, _, _ in mutation.changes()}
        try:
            for file, old, new in mutation.changes():
                assert before[file].count(old) == 1, f"{file} has changed: {mutation.name}"
                (TREE / file).write_text(before[file].replace(old, new))
            build()
            print(mutation.name)
            missed += not look(given, [])
            if given.plain:
                look(given, ["--plain"])
        finally:
            for file, text in before.items():
                (TREE / file).write_text(text)
    print(f"{missed} were not found with explored schedules")
    return min(missed, 1)


def build():
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = os.environ | {"SYNCLESS_BUILD": "debug"}
    subprocess.run(command, cwd=TREE, env=environment, check=True, stdout=subprocess.DEVNULL)


def look(given, options):
    """Whether something was found; prints what, and when."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.simulate", "--first", "--seed", str(given.seed), *options]
    done = subprocess.run(
        [*command, "--seconds", str(given.seconds)],
        cwd=TREE,
        env=os.environ | {"PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
    )
    lines = [line for line in done.stdout.splitlines() if " s, episode " in line or " requests " in line]
    found = done.returncode != 0
    if not lines:
        lines = [done.stderr[-300:] or done.stdout[-300:]]  # it could not even begin
    said = lines[0] if found else f"not found: {lines[-1]}"
    kind = "plain   " if options else "explored"
    print(f"    {kind} | {said.strip()[:160]} ({time.monotonic() - began:.0f} s)", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
