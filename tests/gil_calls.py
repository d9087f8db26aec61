"""Which functions of C release the GIL, and so may wait, and are not patched: ``python -m tests.gil_calls``.

It needs no sources. The code of each built-in function, method and slot is found by its address, and
disassembled: one that calls PyEval_SaveThread releases the GIL, also through functions that its file does not
export. gil_calls.txt says of each that the patch leaves alone, why. Prints what is missing there.

An exported function ends the search, because most are those by which Python code is called. Those named _Py_*
that release the GIL themselves, such as _Py_read, count as PyEval_SaveThread does. What is called by pointers
is not seen, and neither is what waits and keeps the GIL.
"""

from __future__ import annotations

import bisect
import ctypes
import fnmatch
import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import types
import warnings

MODULES = """
    posix _socket _ssl select time _signal fcntl termios mmap _curses syslog pwd grp spwd _sqlite3 _io _thread
    _queue _multiprocessing _posixshmem _uuid zlib _bz2 _lzma _zstd _hashlib _blake2 _sha3 _ctypes
    faulthandler readline _posixsubprocess nis _crypt ossaudiodev
""".split()
REASONS = pathlib.Path(__file__).with_suffix(".txt")
RELEASES = "PyEval_SaveThread"
DEPTH = 4
COMPLETE = (3, 11)
"""The Python on which each line of REASONS must be needed."""
OTHER_NAMES = {
    "socket.": "_socket.",
    "signal.": "_signal.",
    "ssl.SSLSocket.": "_ssl._SSLSocket.",
    "ssl.SSLContext.": "_ssl._SSLContext.",
}
"""Names by which the patch calls them."""

ELSEWHERE = -1
POINTER = ctypes.sizeof(ctypes.c_void_p)
METHOD_OF_FUNCTION, METHOD_OF_DESCRIPTOR, WRAPPED, NEW = 2, 5, 6, 39
"""Places in the objects, in pointers."""

_BRANCH = re.compile(r"^\s*([0-9a-f]+):\s+(?:bnd |notrack )?(call|j[a-z]+|bl?|b\.\w+|cbn?z|tbn?z)q?\s+(.*)$")
_TARGET = re.compile(r"([0-9a-f]+) <([^>+@]+)([^>]*)>\s*$")


def why_not() -> str | None:
    if sys.platform != "linux":
        return "the code of functions is found on Linux only"
    missing = [tool for tool in ("objdump", "readelf", "nm") if shutil.which(tool) is None]
    return f"{', '.join(missing)} of binutils not installed" if missing else None


def _word(address: int, place: int) -> int:
    return ctypes.c_void_p.from_address(address + place * POINTER).value or 0


def code_of(found: object) -> list[int]:
    """The addresses of the functions of C that an object calls."""
    kind = type(found)
    if kind is types.BuiltinFunctionType:
        return [_word(_word(id(found), METHOD_OF_FUNCTION), 1)]
    if kind in (types.MethodDescriptorType, types.ClassMethodDescriptorType):
        return [_word(_word(id(found), METHOD_OF_DESCRIPTOR), 1)]
    if kind is types.WrapperDescriptorType:
        return [_word(id(found), WRAPPED)]
    if kind is types.GetSetDescriptorType:
        place = _word(id(found), METHOD_OF_DESCRIPTOR)
        return [_word(place, 1), _word(place, 2)]
    return []


def classes() -> list[type]:
    found: list[type] = [object]
    for each in found:
        found.extend(sub for sub in type.__subclasses__(each) if sub not in found)
    return found


def candidates() -> dict[str, tuple[list[int], object, object]]:
    """name -> its code, where it is a member, and the member"""
    found: dict[str, tuple[list[int], object, object]] = {}
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for member, value in list(vars(module).items()):
            if type(value) is types.BuiltinFunctionType and value.__name__ == member:
                found[f"{name}.{member}"] = code_of(value), module, value
    for name in ("sqlite3", "ssl"):  # they make further classes
        importlib.import_module(name)
    owners = {name: name for name in MODULES}
    owners.update({"os": "posix", "socket": "_socket", "sqlite3": "_sqlite3", "ssl": "_ssl", "io": "_io"})
    for owner in classes():
        if owner.__module__ not in owners or (owner.__flags__ & (1 << 9) and "__dict__" in vars(owner)):
            continue
        place = f"{owners[owner.__module__]}.{owner.__qualname__}"
        for member, value in list(vars(owner).items()):
            code = [_word(id(owner), NEW)] if member == "__new__" else code_of(value)
            if code:
                found.setdefault(f"{place}.{member}", (code, owner, value))
    return found


class Program:
    """A file with code, as this process has loaded it."""

    def __init__(self, path: str, bias: int):
        self.path, self.bias = path, bias
        self._starts: list[int] = []
        self._ends: list[int] = []
        frames = self._run("readelf", "--wide", "--debug-dump=frames", path)
        extents = re.findall(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", frames)
        for start, end in sorted((int(start, 16), int(end, 16)) for start, end in extents):
            self._starts.append(start)
            self._ends.append(end)
        self.exported: dict[int, set[str]] = {}
        for line in self._run("nm", "-D", "--defined-only", path).splitlines():
            address, kind, name = line.split()
            if kind in "TWi":
                self.exported.setdefault(int(address, 16), set()).add(name.partition("@")[0])
        self._branches = self._read_branches()
        self._places = [place for place, _, _ in self._branches]

    @staticmethod
    def _run(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _read_branches(self) -> list[tuple[int, int, str]]:
        found = []
        command = ["objdump", "-d", "--no-show-raw-insn", self.path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                branch = _BRANCH.match(line)
                target = _TARGET.search(branch[3]) if branch else None
                if branch and target:
                    elsewhere = target[3].startswith("@")  # in another file, by way of a table
                    place = ELSEWHERE if elsewhere else int(target[1], 16)
                    found.append((int(branch[1], 16), place, "" if target[3][:1] == "+" else target[2]))
        return sorted(found)

    def calls(self, address: int) -> list[tuple[int, str]]:
        """What the function at an address branches to: addresses in this file, and names."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._ends[at]:
            return []
        start, end = self._starts[at], self._ends[at]
        first, last = bisect.bisect_left(self._places, start), bisect.bisect_left(self._places, end)
        return [
            (target, name)
            for _, target, name in self._branches[first:last]
            if not start <= target < end or target == start
        ]


class Search:
    def __init__(self) -> None:
        self._programs: dict[str, Program] = {}
        self._mapped: list[tuple[int, int, str, int]] = []
        for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
            extent, rights, offset, _, _, *path = line.split(maxsplit=5)
            if "x" in rights and path and path[0].startswith("/"):
                start, end = (int(part, 16) for part in extent.split("-"))
                self._mapped.append((start, end, path[0], int(offset, 16)))
        self.final = {RELEASES}
        core = self.program_of(ctypes.cast(ctypes.pythonapi.PyEval_SaveThread, ctypes.c_void_p).value or 0)
        assert core is not None
        for address, names in core.exported.items():
            if any(name.startswith("_Py_") for name in names) and self._releases(core, address, 0, set()):
                self.final |= names

    def program_of(self, address: int) -> Program | None:
        for start, end, path, offset in self._mapped:
            if start <= address < end:
                if path not in self._programs:
                    self._programs[path] = Program(path, start - _address_of(path, offset))
                return self._programs[path]
        return None

    def releases(self, address: int) -> bool:
        program = self.program_of(address) if address else None
        return program is not None and self._releases(program, address - program.bias, DEPTH, set())

    def _releases(self, program: Program, address: int, depth: int, seen: set[int]) -> bool:
        further = []
        for target, name in program.calls(address):
            names = program.exported.get(target, set())
            if name in self.final or names & self.final:
                return True
            if not names and target != ELSEWHERE and target not in seen:
                seen.add(target)
                further.append(target)
        return depth > 0 and any(self._releases(program, target, depth - 1, seen) for target in further)


def _address_of(path: str, offset: int) -> int:
    """The address that a file wants for the segment at an offset."""
    for line in Program._run("readelf", "--wide", "--segments", path).splitlines():
        words = line.split()
        if words[:1] == ["LOAD"] and int(words[1], 16) // 4096 * 4096 == offset:
            return int(words[2], 16) // 4096 * 4096
    raise ValueError(f"{path} has no segment at {offset:#x}")


def found() -> tuple[list[str], list[str]]:
    """The names that release the GIL: all, and those that are not patched."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        all_names = candidates()
    search = Search()
    releasing = [name for name, (code, _, _) in all_names.items() if any(map(search.releases, code))]
    from syncless.patches import changes, patch_all

    patch_all(cpu=True)
    patched = {change.target for change in changes()}
    for long, short in OTHER_NAMES.items():
        patched |= {short + name.removeprefix(long) for name in patched if name.startswith(long)}
    left = [name for name in releasing if name not in patched and not _is_changed(name, *all_names[name])]
    return releasing, left


def _is_changed(name: str, code: list[int], owner: object, value: object) -> bool:
    """Whether the patch has put another member there, or other code into it."""
    member = name.rpartition(".")[2]
    return vars(owner).get(member) is not value or (member != "__new__" and code_of(value) != code)


def reasons() -> dict[str, str]:
    lines = [line for line in REASONS.read_text().splitlines() if line and not line.startswith("#")]
    return {pattern: reason for pattern, _, reason in (line.partition(": ") for line in lines)}


def main() -> None:
    releasing, left = found()
    known = reasons() if REASONS.exists() else {}
    needed = {pattern for pattern in known for name in left if fnmatch.fnmatchcase(name, pattern)}
    told = {
        "releasing": sorted(releasing),
        "left": sorted(left),
        "unexplained": sorted(
            name for name in left if not any(fnmatch.fnmatchcase(name, pattern) for pattern in known)
        ),
        "unneeded": sorted(
            pattern for pattern in known.keys() - needed if not known[pattern].startswith("Python ")
        ),
    }
    print(json.dumps(told, indent=1))
    sys.exit(bool(told["unexplained"] or (sys.version_info[:2] == COMPLETE and told["unneeded"])))


if __name__ == "__main__":
    main()
