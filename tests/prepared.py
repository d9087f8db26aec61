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
import weakref

FORKS = """\
def next_program():
    import gc, marshal, os, select, signal, socket, sys, threading

    if os.fork():
        os._exit(0)  # the virtual clock of a test stands still while its process has a child
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
            program, arguments, seconds = marshal.loads(message)
            child = os.fork()
            if not child:
                break
            for file in files:
                os.close(file)
            asked.send(b"%d" % child)
            watched = os.pidfd_open(child)
            in_time = select.select([watched], [], [], seconds)[0]
            os.close(watched)
            if not in_time:
                os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            asked.send(b"%d" % status if in_time else b"late")
    threading.main_thread()._native_id = threading.get_native_id()  # before Python 3.13 that of the parent
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    sys.argv[1:] = arguments
    return program

exec(compile((next_program(), globals().pop("next_program"))[0], "<string>", "exec"))
"""
"""What such an interpreter runs."""


class Prepared:
    """One interpreter; it ends with this object."""

    def __init__(self, options, modules, environment, folder):
        self._asks, asked = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with asked:
            starter = subprocess.Popen(
                [sys.executable, *options, "-c", FORKS, str(asked.fileno()), *modules],
                stdout=subprocess.PIPE,  # not used; but sys.stdout is made for what it is
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd=folder,
                pass_fds=[asked.fileno()],
            )
        starter.stdout.close()
        starter.wait()
        self._errors = starter.stderr
        weakref.finalize(self, _end, self._asks, self._errors)

    def run(self, program, *arguments, timeout):
        """The ended process of a program. Raises subprocess.TimeoutExpired."""
        reads, writes = zip(os.pipe(), os.pipe(), strict=True)
        try:
            socket.send_fds(self._asks, [marshal.dumps((program, arguments, timeout))], writes)
            child = int(self._told())
        except ConnectionError:
            _close(reads)
            _prepared.cache_clear()
            errors = self._errors.read().decode()
            raise RuntimeError(f"the prepared interpreter has ended: {errors}") from None
        finally:
            _close(writes)
        told = None
        texts = {file: bytearray() for file in reads}
        try:
            with selectors.DefaultSelector() as selector:
                for file in (*reads, self._asks):
                    selector.register(file, selectors.EVENT_READ)
                while selector.get_map():
                    # the interpreter looks at the time: a clock of a test would jump to the end of it
                    ready = selector.select(None if told is None else timeout)
                    if not ready:
                        raise subprocess.TimeoutExpired(program, timeout)
                    for key, _ in ready:
                        if key.fileobj is self._asks:
                            told = self._told()
                            selector.unregister(self._asks)
                            continue
                        piece = os.read(key.fd, 1 << 16)
                        texts[key.fd] += piece
                        if not piece:
                            selector.unregister(key.fd)
                    if told == b"late":
                        raise subprocess.TimeoutExpired(program, timeout)
        finally:
            _close(reads)
            if told is None:
                os.kill(child, signal.SIGKILL)
                self._told()
        output, errors = (text.decode().replace("\r\n", "\n") for text in texts.values())
        return subprocess.CompletedProcess([program, *arguments], int(told), output, errors)

    def _told(self):
        told = self._asks.recv(100)
        if not told:
            raise ConnectionResetError
        return told


def _close(files):
    for file in files:
        os.close(file)


def _end(asks, errors):
    asks.close()
    errors.close()


_prepared = functools.lru_cache(maxsize=3)(Prepared)


def run(
    program, *arguments, options=(), modules=("syncless.patches",), environment=None, folder=None, timeout
):
    """The ended process of a program that runs as ``python OPTIONS -c PROGRAM ARGUMENTS`` does, where these
    modules have been imported already."""
    if not hasattr(os, "pidfd_open"):  # of Linux 5.3
        command = [sys.executable, *options, "-c", program, *map(str, arguments)]
        how = {"env": environment, "cwd": folder, "timeout": timeout}
        return subprocess.run(command, capture_output=True, text=True, **how)
    variables = dict(os.environ if environment is None else environment)
    variables.pop("PYTEST_CURRENT_TEST", None)
    forks = _prepared(tuple(options), tuple(modules), frozenset(variables.items()), folder or os.getcwd())
    return forks.run(program, *map(str, arguments), timeout=timeout)
