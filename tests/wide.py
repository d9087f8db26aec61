"""Tests that `make test` leaves to the gate, so that it tells within minutes whether what is promised holds.
They try combinations, start compilers or frameworks, or test the tools of this repository."""

import pathlib

WIDE = {
    "cli/test_application_options.py": "each option, with workers and without",
    "cli/test_banner.py": "each kind of terminal",
    "contrib": "frameworks",
    "core/test_builds.py": "builds",
    "core/test_elsewhere.py": "other threads and processes, call by call",
    "core/test_kqueue.py": "an emulation",
    "deploy": "recipes, by the programs that read them",
    "examples": "examples, played to their end",
    "native/test_native_examples.py": "compilers",
    "native/test_native_faults.py": "each allocation that may fail",
    "native/test_native_operating.py": "compilers",
    "native/test_native_processes.py": "compilers",
    "native/test_native_sanitizers.py": "compilers",
    "native/test_native_sources.py": "compilers",
    "patches/test_anyio.py": "a framework",
    "patches/test_cooperation.py": "a program for each call that waits",
    "patches/test_elsewhere.py": "other threads and processes, call by call",
    "patches/test_loop_locks.py": "each lock, where no tasklet can wait",
    "patches/test_native.py": "compilers",
    "test_benchmark_runs.py": "tools",
    "test_pages.py": "the pages, followed to their end",
    "test_runner.py": "tools",
    "test_simulate.py": "tools",
    "test_stackless_suite.py": "tools",
    "wsgi/test_shortage.py": "each call that the system may refuse",
}
"""File or folder below tests/ -> what it is about."""


def is_wide(path: pathlib.Path) -> bool:
    relative = path.relative_to(pathlib.Path(__file__).parent)
    return any(part.as_posix() in WIDE for part in (relative, *relative.parents))
