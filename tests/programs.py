"""Runs programs in interpreters of their own, patched or not."""

import contextlib
import itertools
import os
import random
import re
import socket
import subprocess
import sys
import textwrap

from tests import prepared

LONGEST = 180
"""Seconds after which a program hangs, however busy the machine is."""
MAY_FORK = "ignore:This process:DeprecationWarning"  # programs fork on purpose while there are other threads
SLOW = re.compile(r"^(?:Executing <.* took [\d.]+ seconds|waited .*; only this task was blocked: .*)\n", re.M)
"""What the debug mode of asyncio tells where the machine is busy."""

SLOW_IMPORT = """
import importlib.machinery, sys
import syncless

go, parked = syncless.Event(), syncless.Event()

class SlowImport:
    "The import of a module parks until go is set: of one that is made here, or the first import of another."
    def __init__(self, name, made):
        self.name, self.made = name, made
    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            if self.made:
                return importlib.machinery.ModuleSpec(name, self)
            self.name = None
            self.park()
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        self.park()
        module.value = 1
    def park(self):
        parked.set()
        go.wait()

def slow_import(name, made=False):
    sys.meta_path.insert(0, SlowImport(name, made))
"""
"""Defines slow_import(name), for programs."""


def run_unchecked(program, *arguments, timeout=LONGEST, **options):
    """The ended process; arguments are the interpreter's."""
    command = [sys.executable, *arguments, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)


def run_python(program, **options):
    """The output of a program that must succeed and print no errors."""
    command = [sys.executable, "-X", "faulthandler", "-W", MAY_FORK, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, **options)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


_ports = {}
"""Process -> those that its tests take, one after the other."""


def free_port():
    """A port for a server that begins later: none of those that the kernel gives away (from 32768 on), nor,
    hardly ever, one that another process of tests takes meanwhile."""
    process = os.getpid()
    if process not in _ports:
        first = 10_000 + 20 * random.SystemRandom().randrange(1100)
        _ports[process] = itertools.cycle(range(first, first + 20))
    return next(filter(_is_free, _ports[process]))


def _is_free(port):
    with contextlib.suppress(OSError), socket.create_server(("", port)):
        return True
    return False


def run_patched(program, *arguments, patch="patch_all()", timeout=LONGEST):
    """The ended process of a program that runs after the patch, without warnings; arguments are its own."""
    whole = f"from syncless.patches import patch_all, patched, unpatch\n{patch}\n" + program
    options = ["-X", "dev", "-W", "error", "-W", MAY_FORK]
    done = prepared.run(whole, *arguments, options=options, timeout=timeout)
    done.stderr = SLOW.sub("", done.stderr)
    return done


def check(program, *arguments, **options):
    """The output of a patched program that must get to its end and print no errors."""
    done = run_patched(textwrap.dedent(program) + "\nprint('to the end')", *arguments, **options)
    assert done.stdout.endswith("to the end\n") and not done.stderr, done.stdout + done.stderr
    return done.stdout
