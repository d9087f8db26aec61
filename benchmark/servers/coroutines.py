"""Coroutine libraries of C, each with a hello in a file of its name: a coroutine for each connection, which
skips heads. Each is found by a variable that names its source, in which it has been built."""

from __future__ import annotations

import os
import pathlib
import subprocess

from benchmark.servers.peer import Absent, Peer

HERE = pathlib.Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "benchmark"
LIBRARIES = {
    "libtask": ("BENCHMARK_LIBTASK", ".", "libtask.a"),
    "statethreads": ("BENCHMARK_STATETHREADS", "obj", "obj/libst.a"),
    "lthread": ("BENCHMARK_LTHREAD", "src", "build/liblthread.a"),
    "libdill": ("BENCHMARK_LIBDILL", ".", ".libs/libdill.a"),
}
"""name -> the variable, and in the source the folder of its header, and the library"""


def _linked(name: str) -> str:
    variable, headers, library = LIBRARIES[name]
    source = pathlib.Path(os.environ.get(variable, ""))
    if not source.name:
        raise Absent(f"{variable}=/path/to/{name}, with its library built")
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("CC", "cc"), "-O2", "-w", "-D_GNU_SOURCE", f"-I{source / headers}"]
    command += [str(HERE / f"{name}.c"), str(source / library), "-o", str(BUILD / name), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Absent(f"it cannot be linked: {done.stderr.strip().splitlines()[-1]}")
    return "a coroutine for each connection, skips the head"


def _peer(name: str) -> Peer:
    def command(port: int, app: str) -> list[str]:
        return [str(BUILD / name), str(port)]

    return Peer(name, command, lambda: _linked(name), ("hello",))


COROUTINES = tuple(map(_peer, LIBRARIES))
