"""The threads of native handlers under sanitizers: random requests, publications, hand-overs, and a stop."""

import os
import pathlib
import shutil
import subprocess

import pytest

from syncless import native

HERE = pathlib.Path(__file__).parent
ROOMS = HERE.parent.parent / "syncless"
SOURCES = [*(ROOMS / "native").glob("*.c"), *(ROOMS / "http" / "wire").glob("*.c")]
OPTIONS = {
    "thread": {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"},
    "address,undefined": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"},
}


@pytest.mark.parametrize("kind", ["thread", pytest.param("address,undefined", marks=pytest.mark.slow)])
def test_random_requests_publications_and_hand_overs(tmp_path, kind):
    program = tmp_path / "threads"
    include = [f"-I{native.get_include()}", f"-I{ROOMS / 'native'}", f"-I{ROOMS / 'http' / 'wire'}"]
    command = ["cc", "-g", "-O1", "-Wno-tsan", f"-fsanitize={kind}", *include, HERE / "threads.c", *SOURCES]
    environment = {**os.environ, "LD_PRELOAD": ""}
    built = subprocess.run(
        [*command, "-pthread", "-o", program], capture_output=True, text=True, env=environment
    )
    if "cannot find" in built.stderr:
        pytest.skip(f"the compiler has no library for -fsanitize={kind}")
    assert built.returncode == 0, built.stderr
    run = [program, os.environ.get("SYNCLESS_NATIVE_SECONDS", "0.5")]
    if shutil.which("setarch"):  # the sanitizer of gcc 12 cannot live with as much randomness as kernels have
        run = ["setarch", "-R", *run]
    done = subprocess.run(run, capture_output=True, text=True, env={**environment, **OPTIONS[kind]})
    if "unexpected memory mapping" in done.stderr or "failed to set personality" in done.stderr:
        pytest.skip(f"-fsanitize={kind} does not run on this kernel")
    assert done.returncode == 0, done.stdout + done.stderr
