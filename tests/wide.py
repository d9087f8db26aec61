"""Tests that `make test` leaves to the gate, so that it tells within minutes whether what is promised holds.
They try combinations, start compilers or frameworks, or test the tools of this repository."""

import pathlib

WIDE = {
    "asgi/test_program.py": "lifespans, with workers and without",
    "asgi/test_workers.py": "workers, started and stopped in each way",
    "asyncio/test_cancelled_steps.py": "each step at which a task may be cancelled",
    "cli/test_application_options.py": "each option, with workers and without",
    "cli/test_banner.py": "each kind of terminal",
    "cli/test_guardedfiles.py": "each kind of link, in each folder",
    "cli/test_hooks.py": "each hook that may fail",
    "cli/test_loading.py": "each application that cannot be served",
    "cli/test_moving.py::test_each_setting_of_gunicorn_is_taken_or_answered_with_a_sentence": "each setting",
    "cli/test_patch.py": "each area that may be left out",
    "cli/test_privileges.py::test_wrong_names_are_told": "each wrong name",
    "cli/test_reloading.py": "each thing that a reload renews",
    "cli/test_streams.py::test_missing_ones_are_null": "each stream that may be missing",
    "contrib": "frameworks",
    "core/test_builds.py": "builds",
    "core/test_cleanup.py::test_storm_of_interrupts_leaves_no_connection_taken": "random programs",
    "core/test_elsewhere.py": "other threads and processes, call by call",
    "core/test_forking.py::test_a_child_that_a_library_in_c_has_forked_begins_with_its_first_wait": (
        "each way to wait"
    ),
    "core/test_forking.py::test_a_hook_of_another_library_may_wait": "each way to wait",
    "core/test_interpreter_ends.py::test_process_ends_well_while_a_daemon_thread_has_a_loop": (
        "each way to end"
    ),
    "core/test_invariants.py::test_broken_promise_is_noticed": "tools",
    "core/test_kqueue.py": "an emulation",
    "core/test_layouts.py::test_unknown_layout_is_refused_by_name": "each layout",
    "core/test_memory.py": "much memory",
    "core/test_model.py": "random programs",
    "core/test_storms.py": "random programs",
    "core/test_strange_descriptors.py::test_files_that_got_their_numbers_are_left_alone": "each descriptor",
    "deploy": "recipes, by the programs that read them",
    "examples": "examples, played to their end",
    "http/test_compress.py::test_options_of_the_command": "each option",
    "http/test_errorlog.py": "each kind of log, also one that nobody reads",
    "http/test_errors.py": "each mistake of an application",
    "http/test_fairness.py": "many tasklets",
    "http/test_fork.py": "forks in requests",
    "http/test_hangups.py::test_call_of_an_interrupted_request_ends_and_its_connection_is_closed": (
        "each library"
    ),
    "http/test_loop_waits.py": "each kind of code that the loop itself may call",
    "http/test_proxies.py::test_the_port_is_the_clients_own": "each form of a port",
    "http/test_shortage.py": "each call that the system may refuse",
    "http/test_static.py::test_command_serves_files_and_says_what_is_wrong": "each mistake",
    "http/test_wire.py": "each case of HTTP/1.1",
    "http/units": "compilers",
    "http2/test_hostile.py": "each attack",
    "io/test_dns.py::test_as_the_c_library_answers": "each configuration",
    "io/test_dns.py::test_odd_lines_mean_the_same_as_to_the_c_library": "each odd line",
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
    "patches/test_gated_calls.py::test_errors_are_those_of_the_original": (
        "a program for each call that waits"
    ),
    "patches/test_gated_calls.py::test_other_tasklets_run": "a program for each call that waits",
    "patches/test_interrupted.py": "each driver of a database",
    "patches/test_loop_locks.py": "each lock, where no tasklet can wait",
    "patches/test_native.py": "compilers",
    "patches/test_preemption.py::test_busy_wait_ends": "each busy wait",
    "patches/test_signal_handlers.py::test_what_a_handler_raises_in_the_child_of_a_fork_ends_its_wait": (
        "each way to fork"
    ),
    "patches/test_signatures.py": "each function",
    "patches/test_sqlite.py::test_holder_of_the_lock_commits_however_many_wait": "many writers",
    "patches/test_tools.py": "debuggers, coverage and profilers",
    "patches/test_unknown_pythons.py": "each area that may be left out",
    "server/test_forked_workers.py": "libraries that wait in each child",
    "server/test_recycling.py": "each limit of a worker",
    "server/test_reload.py": "each thing that a reload renews",
    "server/test_standby.py::test_a_server_stops_in_order": "each way to stop",
    "server/test_workers.py::test_connections_that_wait_to_be_accepted_survive_their_workers": (
        "each way to stop"
    ),
    "server/test_workers.py::test_the_application_gets_the_status_of_a_process_started_in_the_master": (
        "each way to start"
    ),
    "stackless/test_threads.py::test_threads_may_operate_on_tasklets_of_other_threads": "each operation",
    "status/test_asgi.py": "frameworks",
    "status/test_health.py::test_health_checks_at_a_path_of_the_main_addresses": "each path",
    "status/test_metrics.py": "the tools that read them",
    "test_benchmark_runs.py": "tools",
    "test_marks.py": "tools",
    "test_pages.py": "the pages, followed to their end",
    "test_runner.py": "tools",
    "test_sdist.py": "tools",
    "test_shape.py": "tools",
    "test_simulate.py": "tools",
    "test_eventlet_suite.py": "tools",
    "test_stackless_suite.py": "tools",
    "test_switches.py": "tools",
    "wsgi/test_adapt.py": "each wrong argument",
    "wsgi/test_input.py::test_many_small_pieces_take_the_room_of_one_body": "much data",
    "wsgi/test_input.py::test_reading_costs_in_proportion_to_the_body": "much data",
    "wsgi/test_module_command.py": "each kind of module",
    "wsgi/test_tracing.py": "frameworks",
}
"""File, folder or file::test below tests/ -> what it is about."""


def is_wide(path: pathlib.Path, test: str = "") -> bool:
    """`test` is the name of a function, without its parameters."""
    tests = pathlib.Path(__file__).parent
    if not path.is_relative_to(tests):
        return False
    relative = path.relative_to(tests)
    whole = any(part.as_posix() in WIDE for part in (relative, *relative.parents))
    return whole or f"{relative.as_posix()}::{test}" in WIDE


def leaves_out(marks: str) -> bool:
    """Whether -m says so of all that is wide."""
    return "not wide" in marks.split(" and ") and " or " not in marks
