"""A warmed process, from which each episode is forked.

``python -m tests.simulate.forks FOLDER [--plain]`` reads seeds, a line each, and prints a line for each: JSON
with the outcome or what was found. The standard error of episode N is FOLDER/N.

A seed brings an episode back exactly only if all else is equal: what has been imported and cached, the
addresses of objects, descriptors, the time, and threads. So an episode begins as a copy of one process, which
does nothing but fork. Virtual time begins at a fixed moment. Calls for OS threads are made in place, between
two turns of others. No thread is stopped for the processor time it took, which is the machine's. The command
gives fixed hashes and addresses (__main__.py).
"""

import argparse
import contextlib
import faulthandler
import gc
import json
import os
import sys
import time

from tests import virtualtime

WARMING = 12
"""Episodes before the first fork, so that what is imported or cached once is so."""
MOST_PAUSE = 0.05
"""Virtual seconds between two turns of the native handlers' thread, at most."""
NATIVE = {
    "/native/hello": "hello",
    "/native/echo": "echo",
    "/native/mirror": "mirror",
    "/native/steps": "steps",
    "/native/forever": "forever",
    "/native/fails": "fails",
    "/echo/pass": "pass",
}
"""The native handlers of tests/native/handlers.c, by their routes."""
BEGIN = 10_000_000.0
"""Seconds of the monotonic clock: episodes begin at the next multiple of it."""
BEGIN_REAL = 1_800_000_000.0


def without_threads():
    """Before anything is started: what OS threads would do is done in tasklets."""
    import syncless
    from syncless._core import nonblockingtext
    from syncless._core.calls import threads
    from syncless._core.current import directly

    def run(pool, job):
        syncless.sleep()
        try:
            return directly(job.context.run, job.function, *job.args, **job.kwargs)
        finally:
            if job.place is not None:
                job.place.release()
            syncless.sleep()

    def is_writable(fd, milliseconds, look=nonblockingtext._ready):
        if milliseconds:
            syncless.sleep(0.01)  # the place of a wait in a thread
        return look(fd, 0)

    threads.ThreadPool._run = run
    threads.ThreadPool.start = lambda pool, function: syncless.spawn(function) and None
    nonblockingtext._ready = is_writable
    nonblockingtext._start_new_thread = lambda function, arguments: syncless.spawn(function, *arguments)


def without_preemption():
    """Processor time decides when it comes."""
    from syncless.patches import preemption

    preemption.Preemption.start = lambda threads: None


def with_stepped_handlers():
    """Threads of native handlers take their turns in a tasklet, and Python accepts their connections."""
    import syncless
    from syncless.native import handlerthreads
    from syncless.native.threads import Threads

    class Stepped(Threads):
        def start(self):
            self.driver = syncless.spawn(self.drive)

        def drive(self):
            pause, seen = 0, None
            while True:
                self.turn()
                now = (self.requests, self.connections, self.handed_over, *self.figures().values())
                pause = 0 if now != seen else min(2 * pause + 0.0002, MOST_PAUSE)
                seen = now
                syncless.sleep(pause)

        def end(self):
            super().end()
            self.driver.kill()

    def all_busy(handlers):
        if "asked" in handlers.__dict__:
            syncless.sleep(10)  # or each look costs a jump of the clock
        handlers.asked = True
        return True

    handlerthreads.Threads = Stepped
    handlerthreads.NativeHandlers.all_busy = all_busy


def made_handlers(folder):
    """Native handlers by their routes; None without a C compiler."""
    from syncless import native
    from tests.native import conftest

    library = os.path.join(folder, "handlers.so")
    try:
        conftest.compiled(conftest.HERE / "handlers.c", library)
    except OSError:
        return None
    return {path: native.load(library, name, pieces=name == "mirror") for path, name in NATIVE.items()}


def made_certificate(folder):
    """None without the library trustme. RSA: signatures of other keys differ in length."""
    try:
        import trustme
    except ImportError:
        return None
    from tests.simulate.episode import Certificate

    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    found = Certificate(os.path.join(folder, "authority.pem"), os.path.join(folder, "server.pem"))
    authority.cert_pem.write_to_path(found.authority)
    authority.issue_cert("a", key_type=trustme.KeyType.RSA).private_key_and_cert_chain_pem.write_to_path(
        found.server
    )
    return found


def warm(folder, explores):
    from syncless import patches

    handlers = made_handlers(folder)
    patches.patch_all()
    without_threads()
    without_preemption()
    with_stepped_handlers()
    from tests.simulate.episode import Episode
    from tests.simulate.faults import Faults

    given = Faults(), made_certificate(folder), handlers
    with virtualtime.virtual_time():
        for seed in range(WARMING):
            Episode(seed, *given, explores=False, calm=True).run()
    gc.collect()
    gc.freeze()
    gc.disable()
    return lambda seed: Episode(seed, *given, explores=explores).run()._asdict()


def episode(run, seed, errors):
    """In the child: one line."""
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    virtualtime.start_at((time.monotonic() // BEGIN + 1) * BEGIN, BEGIN_REAL)
    sys.dont_write_bytecode = True  # another run would find it
    try:
        told = run(seed)
    except BaseException as error:
        import traceback

        traceback.print_exc()
        told = {"found": f"{type(error).__name__}: {error}"}
    os.write(1, (json.dumps(told) + "\n").encode())
    with contextlib.suppress(BaseException):
        sys.stderr.flush()
    os._exit(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    virtualtime.preload()
    faulthandler.enable()
    read, write, waitpid, fork = os.read, os.write, os.waitpid, os.fork  # not those of the patch
    run = warm(given.folder, not given.plain)
    write(1, b"warm\n")
    while line := read(0, 100):  # the command waits for the answer before it sends another
        seed = int(line)
        pid = fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            episode(run, seed, os.path.join(given.folder, str(seed)))
        write(1, b"pid %d\n" % pid)
        _, status = waitpid(pid, 0)
        write(1, b"end %d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
