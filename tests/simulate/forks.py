"""A warmed process, from which each episode is forked.

``python -m tests.simulate.forks FOLDER [--plain]`` reads seeds, a line each, and prints a line for each: JSON
with the outcome or what was found. The standard error of episode N is FOLDER/N.

A seed brings an episode back exactly only if all else is equal: what has been imported and cached, the
addresses of objects, descriptors, the time, and threads. So an episode begins as a copy of one process, which
does nothing but fork. Virtual time begins at a fixed moment. Calls for OS threads are made in place, between
two turns of others. The command gives fixed hashes and addresses (__main__.py).
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

    patches.patch_all()
    without_threads()
    from tests.simulate.episode import Episode
    from tests.simulate.faults import Faults

    faults, certificate = Faults(), made_certificate(folder)
    with virtualtime.virtual_time():
        for seed in range(WARMING):
            Episode(seed, faults, certificate, explores=False, calm=True).run()
    gc.collect()
    gc.freeze()
    gc.disable()
    return lambda seed: Episode(seed, faults, certificate, explores=explores).run()._asdict()


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
