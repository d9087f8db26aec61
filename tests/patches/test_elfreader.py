"""The reader of ELF objects finds the entries of x86-64 and aarch64, and no image makes it read outside of
itself."""

import random
import re
import shutil
import struct
import subprocess

import pytest

entries_of_file = pytest.importorskip(
    "syncless.patches.libraries.parking", reason="C libraries can be patched on Linux only"
).entries_of_file

X86_64, AARCH64 = 62, 183
LOAD, DYNAMIC, RELRO = 1, 2, 0x6474E552
SLOTS = 0x2000
"""Where the entries lie: behind the tables."""


def image(machine, symbols, relocations, versions=(), relro=None, sections=None):
    """A shared object. `symbols`: (name, whether it is the object's own, its version or None). `relocations`:
    (offset in SLOTS, type, symbol, addend)."""
    strings, places = b"\0", {}
    for text in [name for name, _, _ in symbols] + ["libc.so.6", *versions]:
        places[text] = len(strings)
        strings += text.encode() + b"\0"
    table = b"\0" * 24
    numbers = struct.pack("<H", 0)
    for name, own, version in symbols:
        table += struct.pack("<IBBHQQ", places[name], 0x12, 0, 7 if own else 0, 0, 0)
        numbers += struct.pack("<H", 2 + versions.index(version) if version else 1)
    calls = b"".join(
        struct.pack("<QQq", SLOTS + offset, (symbol + 1) << 32 | kind, addend)
        for offset, kind, symbol, addend in relocations
    )
    needs = struct.pack("<HHIII", 1, len(versions), places["libc.so.6"], 16, 0)
    for i, version in enumerate(versions):
        following = 16 if i + 1 < len(versions) else 0
        needs += struct.pack("<IHHII", 0, 0, 2 + i, places[version], following)
    parts, offset = {}, 0x200
    for name, data in (
        ("strings", strings),
        ("symbols", table),
        ("numbers", numbers),
        ("calls", calls),
        (
            "needs",
            needs,
        ),
    ):
        parts[name] = offset, data
        offset += (len(data) + 15) // 16 * 16
    half = len(relocations) // 2 * 24
    rows = {5: "strings", 6: "symbols", 0x6FFFFFF0: "numbers", 0x6FFFFFFE: "needs", 7: "calls"}
    dynamic = [(tag, parts[name][0]) for tag, name in rows.items() if versions or tag < 0x6FFFFFF0]
    dynamic += [(8, half), (23, parts["calls"][0] + half), (2, len(calls) - half), (20, 7)]
    dynamic += [(0x6FFFFFFF, 1), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *row) for row in dynamic)
    segments = [(LOAD, 0, 0, SLOTS + 0x3000), (DYNAMIC, offset, offset, len(dynamic))]
    if relro:
        segments.append((RELRO, relro[0], relro[0], relro[1]))
    head = b"\x7fELF\2\1\1" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
    for kind, place, address, size in segments:
        head += struct.pack("<IIQQQQQQ", kind, 6, place, address, 0, size, size, 0x1000)
    whole = bytearray(SLOTS + 0x3000)
    whole[: len(head)] = head
    for place, data in [*parts.values(), (offset, dynamic)]:
        whole[place : place + len(data)] = data
    return bytes(whole)


TYPES = {X86_64: {"call": 7, "data": 6, "table": 1, "relative": 8}}
TYPES[AARCH64] = {"call": 1026, "data": 1025, "table": 257, "relative": 1027}


@pytest.fixture(params=[X86_64, AARCH64], ids=["x86-64", "aarch64"])
def machine(request):
    return request.param


def sample(machine, **options):
    kinds = TYPES[machine]
    symbols = [("recv", False, "GLIBC_2.17"), ("own", True, None), ("poll", False, "GLIBC_2.2.5")]
    return image(
        machine,
        symbols,
        [
            (0, kinds["data"], 0, 0),
            (8, kinds["table"], 2, 0),
            (16, kinds["relative"], 0, 0),
            (24, kinds["call"], 1, 0),
            (0x1000, kinds["call"], 2, 0),
            (0x1008, kinds["table"], 0, 4),  # into the middle of something: no function
        ],
        ["GLIBC_2.17", "GLIBC_2.2.5"],
        **options,
    )


def test_entries_for_functions_of_others_are_found_with_their_versions(machine):
    assert entries_of_file(sample(machine)) == [
        ("recv", "GLIBC_2.17", SLOTS, False),
        ("poll", "GLIBC_2.2.5", SLOTS + 8, False),
        ("poll", "GLIBC_2.2.5", SLOTS + 0x1000, False),
    ]


def test_object_without_versions_asks_for_any(machine):
    found = entries_of_file(image(machine, [("recv", False, None)], [(0, TYPES[machine]["call"], 0, 0)]))
    assert found == [("recv", None, SLOTS, False)]


@pytest.mark.parametrize(
    ("page", "size", "expected"),
    [
        (4096, 0x1000, [True, True, False]),
        (4096, 0x1FFF, [True, True, False]),  # the linker protects whole pages
        (4096, 0x2000, [True, True, True]),
        (65536, 0x2000, [False, False, False]),
    ],
)
def test_pages_that_the_linker_made_read_only_are_known(machine, page, size, expected):
    found = entries_of_file(sample(machine, relro=(SLOTS, size)), page)
    assert [is_readonly for *_, is_readonly in found] == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\n" + b"x" * 100,
        b"\x7fELF\1" + b"\0" * 100,
        b"\x7fELF\2\2" + b"\0" * 100,
        image(8, [("recv", False, None)], []),
    ],
    ids=["empty", "script", "32 bits", "other byte order", "MIPS"],
)
def test_other_files_are_refused(data):
    with pytest.raises(ValueError, match="not a 64-bit ELF object"):
        entries_of_file(data)


def test_damaged_images_hurt_nobody(machine):
    """The sanitizers notice a read outside of the image."""
    whole = sample(machine)
    chance = random.Random(26)
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            place = chance.choice([chance.randrange(0x400), chance.randrange(64, 0x110)])
            damaged[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.3:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            entries_of_file(bytes(damaged))
        except ValueError:
            pass


SOURCE = """
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
typedef ssize_t (*reading)(int, void *, size_t);
reading table[] = {read, (reading) write};  /* addresses in data */
int own(int fd) { return poll((struct pollfd *) 0, 0, fd); }
long call(int fd, void *room) { return recv(fd, room, 1, 0) + own(fd) + (long) &connect; }
"""
CALLED = ["connect", "poll", "read", "recv", "write"]


@pytest.mark.parametrize("options", [[], ["-Wl,-z,now"], ["-Wl,-z,lazy", "-Wl,-z,norelro"]])
@pytest.mark.parametrize("compiler", ["gcc", "aarch64-linux-gnu-gcc"])
def test_entries_of_a_compiled_object_are_those_that_readelf_shows(tmp_path, compiler, options):
    if not (shutil.which(compiler) and shutil.which("readelf")):
        pytest.skip(f"{compiler} is not installed: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    source, made = tmp_path / "made.c", tmp_path / "made.so"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", *options, "-o", made, source], check=True)
    shown = subprocess.run(["readelf", "-rW", made], capture_output=True, text=True, check=True).stdout
    expected = [
        (name, version, int(place, 16))
        for place, name, version in re.findall(r"^(\w+) .* (\w+)@(\S+) \+ 0$", shown, re.MULTILINE)
        if name in CALLED
    ]
    found = [entry for entry in entries_of_file(made.read_bytes()) if entry[0] in CALLED]
    assert {name for name, *_ in found} == set(CALLED)
    assert sorted((name, version, place) for name, version, place, _ in found) == sorted(expected)
    if options == ["-Wl,-z,now"]:  # filled when it is loaded, and read-only from then on
        assert all(is_readonly for name, _, _, is_readonly in found if name == "recv")
    elif options:
        assert not any(is_readonly for *_, is_readonly in found)
