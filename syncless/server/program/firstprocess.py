"""Process 1 of a container: it inherits the orphans of all other processes, and must reap them, or zombies
pile up until no process can be started. A server that waited for all children would take their status from
subprocess. So process 1 does nothing else, and its child is the server.
"""

from __future__ import annotations

import os
import signal
import threading

from syncless._core.current import tasklets
from syncless.http.log.errorlog import warn

FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
"""Signals of this process itself."""


NO_CHILD = (
    "process 1 does not wait for orphans here, because this program started threads, tasklets or "
    "processes before serve(), and a child process would not have them: use `docker run --init` or "
    "`syncless run PROGRAM`"
)


def begin_in_child() -> None:
    """Return in a child of process 1, which forwards signals to the child and exits with its status."""
    if os.getpid() != 1:
        return
    if not _is_alone():
        warn(NO_CHILD)
        return
    awaited = signal.valid_signals() - FAULTS
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child:
        os._exit(_attend(child, awaited))
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


def _is_alone() -> bool:
    """Return whether a forked child would have everything that this process has."""
    if threading.active_count() > 1 or len(tasklets()) > 1:
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _attend(child: int, awaited: set[signal.Signals]) -> int:
    """Forward signals and reap processes until the child has ended. Return its exit status, as a shell
    would."""
    while True:
        got = signal.sigwaitinfo(awaited)
        if got.si_signo != signal.SIGCHLD:
            if got.si_code <= 0:  # sent by a process; those of a terminal reach the child, too
                os.kill(child, got.si_signo)
            continue
        pid = -1
        while pid:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
