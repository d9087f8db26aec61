#!/usr/bin/env bash
# Builds a copy of this checkout as on a system without the facilities of Linux and without SIMD instructions, and
# runs the tests of the engine, the sockets, the patch, Stackless and the server with it. The standard library lacks
# names there that only Linux has, such as select.epoll (tests/elsewhere). If pkg-config finds libkqueue, an emulation
# of kqueue for Linux, the copy has that backend, too, and its loops use it.
#
# PYTHON=... must have the group `test`; further arguments are pytest's, SYNCLESS_PORTABLE_COPY=folder keeps the copy.
set -euo pipefail
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
cd "$(dirname "$0")/.."
copy=${SYNCLESS_PORTABLE_COPY:-$(mktemp -d)}
[ -n "${SYNCLESS_PORTABLE_COPY:-}" ] || trap 'rm -rf "$copy"' EXIT
tests/copy.sh "$copy"
mkdir -p build/cython "$copy/build"
cp -a build/cython "$copy/build/" # the C files are the same
unset SYNCLESS_PORTABLE_COPY # the command refuses a variable of this prefix that it does not know
find "$copy/build" -name '*.c' -exec touch {} +
cd "$copy"

backend=poll
if pkg-config --exists libkqueue; then
    backend=kqueue
    folder=$(pkg-config --variable=libdir libkqueue)
    CFLAGS="${CFLAGS:-} $(pkg-config --cflags libkqueue)"
    LDFLAGS="${LDFLAGS:-} -L$folder -Wl,-rpath,$folder"
    export CFLAGS LDFLAGS
fi
export PYTHONPATH=$copy
SYNCLESS_PORTABLE=1 SYNCLESS_BUILD=debug "$python" setup.py --quiet build_ext --inplace
export PYTHONPATH=$copy:$copy/tests/elsewhere
"$python" -c "import syncless; loop = syncless.current_loop().backend; assert loop == '$backend', loop; print('portable build, loop:', loop)"

absent=(
    # without openat2(2) no link is followed beneath a directory, not even one that stays inside
    --deselect 'tests/core/test_beneath.py::test_link_that_stays_inside_is_followed_where_the_kernel_watches'
    --deselect 'tests/http/test_static.py::test_link_inside_the_directory_is_followed'
    # without preadv2(2) and RWF_NOWAIT nobody can say whether a part of a file is in memory
    --deselect 'tests/core/test_beneath.py::test_small_file_is_read_from_memory'
    --deselect 'tests/http/test_static.py::test_large_file_is_brought_into_memory_by_a_thread'
    # without SIOCOUTQ nobody can say how much of a response a client has taken
    --deselect 'tests/http/test_client_limits.py::test_slow_client_goes_on_if_it_may'
    --deselect 'tests/http2/test_windows.py::test_slow_reader_of_wide_windows_goes_on[1]'
    --deselect 'tests/http2/test_windows.py::test_slow_reader_of_wide_windows_goes_on[120]'
    # the poll backend has more memory for each connection
    --deselect 'tests/http/test_overload.py::test_half_sent_heads_cost_little'
    # these call select.epoll, os.waitid, signal.sigtimedwait, sigwaitinfo or signalfd themselves
    --deselect 'tests/patches/test_areas.py::test_everything_is_given_back'
    --deselect 'tests/patches/test_areas.py::test_the_table_names_everything'
    --deselect 'tests/patches/test_areas.py::test_methods_that_were_stored_before_the_patch_are_those_of_the_page'
    --deselect 'tests/patches/test_patches.py::test_call_that_waits_while_the_interpreter_ends_does_as_unpatched'
    --deselect 'tests/patches/test_patches.py::test_calls_that_are_always_ready_take_turns'
    --deselect 'tests/patches/test_patches.py::test_loops_that_never_wait_let_others_run'
    --deselect 'tests/patches/test_processes.py::test_status_of_a_child_that_has_ended_is_taken_once'
    --deselect 'tests/patches/test_signals.py::test_loops_of_others_run_in_threads[trio]'
    --deselect 'tests/patches/test_signals.py::test_signal_that_is_waited_for_does_not_end_the_process'
    --deselect 'tests/patches/test_signals.py::test_children_started_while_a_signal_is_waited_for_do_not_block_it'
    --deselect 'tests/patches/test_signals.py::test_blocked_signal_is_waited_for_by_a_descriptor'
    # C libraries cannot be patched
    --deselect 'tests/patches/test_areas.py::test_each_area_changes_something_or_waits_for_a_module'
    --deselect "tests/patches/test_areas.py::test_area_is_turned_on_or_off_by_nothing_but_a_truth_value[{'native': [5]}]"
    # their select.poll is a lie, and selectors tries that where there is no epoll
    --deselect 'tests/core/test_layouts.py::test_unknown_layout_is_refused_by_name[poll objects]'
    --deselect 'tests/core/test_layouts.py::test_unknown_layout_is_refused_by_name[poll objects (small)]'
)
if [ $backend = kqueue ]; then # libkqueue reads SO_ERROR, so the client does not see the reset any more
    absent+=(--deselect 'tests/http/test_response.py::test_http_1_0_errors_in_mid_stream_are_a_reset')
fi
"$python" -m tests tests/core tests/io/test_socket.py tests/io/test_messages.py tests/io/test_files.py tests/stackless \
    tests/patches/test_areas.py tests/patches/test_patches.py tests/patches/test_locks.py tests/patches/test_processes.py \
    tests/patches/test_threads.py tests/patches/test_polling.py tests/patches/test_signals.py \
    tests/patches/test_elsewhere.py tests/http tests/http2 tests/server tests/wsgi "${absent[@]}" "$@"
