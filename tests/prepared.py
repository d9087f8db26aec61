"""Interpreters that have imported what many programs begin with, and fork for each program.

To start Python and to import `syncless.patches` takes a tenth of a second, which hundreds of tests would
spend. A program finds what it would find in a process of its own: its arguments, the numbers of its files, a
`__main__` with nothing but its own names, the exit of an interpreter. Nothing is patched before it begins.
"""

import functools
import marshal
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import weakref

FORKS = """\
def next_program():
    import gc, marshal, os, socket, sys

    sys.dont_write_bytecode = False  # packages are installed without it
    for name in sys.argv[2:]:
        __import__(name)
    gc.collect()
    gc.freeze()  # else the end of each program copies all of this memory
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        while True:
            message, files, _, _ = socket.recv_fds(asked, 1 << 20, 2)
            if not message:
                os._exit(0)
            child = os.fork()
            if not child:
                break
            for file in files:
                os.close(file)
            asked.send(b"%d" % child)
            asked.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    program, *sys.argv[1:] = marshal.loads(message)
    return program

exec(compile((next_program(), globals().pop("next_program"))[0], "<string>", "exec"))
"""
"""What such an interpreter runs."""


class Prepared:
    """One interpreter; it ends with this object."""

    def __init__(self, options, modules, environment, folder):
        self._asks, asked = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with asked:
            self._process = subprocess.Popen(
                [sys.executable, *options, "-c", FORKS, str(asked.fileno()), *modules],
                stdout=subprocess.PIPE,  # not used; but sys.stdout is made for what it is
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd=folder,
                pass_fds=[asked.fileno()],
            )
        weakref.finalize(self, _end, self._process, self._asks)

    def run(self, program, *arguments, timeout):
        """The ended process of a program. Raises subprocess.TimeoutExpired."""
        command = [program, *arguments]
        reads, writes = zip(os.pipe(), os.pipe(), strict=True)
        try:
            socket.send_fds(self._asks, [marshal.dumps(command)], writes)
            child = self._told()
        except ConnectionError:
            _close(reads)
            _prepared.cache_clear()
            errors = self._process.communicate()[1].decode()
            raise RuntimeError(f"the prepared interpreter has ended: {errors}") from None
        finally:
            _close(writes)
        over = False
        try:
            output, errors = _read(reads, timeout)
            over = True
        finally:
            if not over:
                os.kill(child, signal.SIGKILL)
            status = self._told()
        return subprocess.CompletedProcess(command, status, output, errors)

    def _told(self):
        told = self._asks.recv(100)
        if not told:
            raise ConnectionResetError
        return int(told)


def _close(files):
    for file in files:
        os.close(file)


def _end(process, asks):
    asks.close()
    process.communicate()


def _read(files, timeout):
    """The text that comes from each of these files, which are closed."""
    texts = {file: bytearray() for file in files}
    until = time.monotonic() + timeout
    try:
        with selectors.DefaultSelector() as selector:
            for file in files:
                selector.register(file, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(until - time.monotonic())
                if not ready and time.monotonic() >= until:
                    raise subprocess.TimeoutExpired("a program of the tests", timeout)
                for key, _ in ready:
                    piece = os.read(key.fd, 1 << 16)
                    texts[key.fd] += piece
                    if not piece:
                        selector.unregister(key.fd)
    finally:
        _close(files)
    return [text.decode().replace("\r\n", "\n") for text in texts.values()]


_prepared = functools.lru_cache(maxsize=3)(Prepared)


def run(
    program, *arguments, options=(), modules=("syncless.patches",), environment=None, folder=None, timeout
):
    """The ended process of a program that runs as ``python OPTIONS -c PROGRAM ARGUMENTS`` does, where these
    modules have been imported already."""
    if sys.platform != "linux":  # there are no packets
        command = [sys.executable, *options, "-c", program, *map(str, arguments)]
        how = {"env": environment, "cwd": folder, "timeout": timeout}
        return subprocess.run(command, capture_output=True, text=True, **how)
    variables = dict(os.environ if environment is None else environment)
    variables.pop("PYTEST_CURRENT_TEST", None)
    forks = _prepared(tuple(options), tuple(modules), frozenset(variables.items()), folder or os.getcwd())
    return forks.run(program, *map(str, arguments), timeout=timeout)
