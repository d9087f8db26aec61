"""Tests that `make test` leaves to the gate, so that it tells within minutes whether what is promised holds.
They try combinations, start compilers or frameworks, or test the tools of this repository."""

import pathlib

WIDE = {
    "cli/test_application_options.py": "each option, with workers and without",
    "cli/test_banner.py": "each kind of terminal",
    "cli/test_guardedfiles.py": "each kind of link, in each folder",
    "cli/test_hooks.py": "each hook that may fail",
    "cli/test_loading.py": "each application that cannot be served",
    "cli/test_patch.py": "each area that may be left out",
    "contrib": "frameworks",
    "core/test_builds.py": "builds",
    "core/test_elsewhere.py": "other threads and processes, call by call",
    "core/test_kqueue.py": "an emulation",
    "core/test_memory.py": "much memory",
    "core/test_model.py": "random programs",
    "core/test_storms.py": "random programs",
    "deploy": "recipes, by the programs that read them",
    "examples": "examples, played to their end",
    "native/test_native_agreement.py": "random requests",
    "native/test_native_examples.py": "compilers",
    "native/test_native_faults.py": "each allocation that may fail",
    "native/test_native_operating.py": "compilers",
    "native/test_native_processes.py": "compilers",
    "native/test_native_sanitizers.py": "compilers",
    "native/test_native_sources.py": "compilers",
    "native/test_native_steps.py": "compilers",
    "native/test_native_wire.py": "each case of HTTP/1.1",
    "patches/test_anyio.py": "a framework",
    "patches/test_conditions.py": "random programs",
    "patches/test_cooperation.py": "a program for each call that waits",
    "patches/test_elsewhere.py": "other threads and processes, call by call",
    "patches/test_expanding.py": "much data",
    "patches/test_loop_locks.py": "each lock, where no tasklet can wait",
    "patches/test_native.py": "compilers",
    "patches/test_signatures.py": "each function",
    "patches/test_unknown_pythons.py": "each area that may be left out",
    "status/test_metrics.py": "the tools that read them",
    "test_benchmark_runs.py": "tools",
    "test_marks.py": "tools",
    "test_pages.py": "the pages, followed to their end",
    "test_runner.py": "tools",
    "test_shape.py": "tools",
    "test_simulate.py": "tools",
    "test_stackless_suite.py": "tools",
    "test_switches.py": "tools",
    "wsgi/test_adapt.py": "each wrong argument",
    "wsgi/test_errors.py": "each mistake of an application",
    "wsgi/test_fairness.py": "many tasklets",
    "wsgi/test_forked_workers.py": "libraries that wait in each child",
    "wsgi/test_http2_hostile.py": "each attack",
    "wsgi/test_recycling.py": "each limit of a worker",
    "wsgi/test_reload.py": "each thing that a reload renews",
    "wsgi/test_shortage.py": "each call that the system may refuse",
    "wsgi/test_wire.py": "each case of HTTP/1.1",
}
"""File or folder below tests/ -> what it is about."""


def is_wide(path: pathlib.Path) -> bool:
    relative = path.relative_to(pathlib.Path(__file__).parent)
    return any(part.as_posix() in WIDE for part in (relative, *relative.parents))
