#!/usr/bin/env bash
# Builds a copy of this checkout as on a system without the facilities of Linux and without SIMD instructions, and
# runs the tests of the engine, the sockets, the patch, Stackless and the server with it. If pkg-config finds
# libkqueue, an emulation of kqueue for Linux, the copy has that backend, too, and its loops use it.
#
# PYTHON=... must have the group `test`; further arguments are pytest's, SYNCLESS_PORTABLE_COPY=folder keeps the copy.
set -euo pipefail
python=$(realpath -s "${PYTHON:-.venv/bin/python}")
cd "$(dirname "$0")/.."
copy=${SYNCLESS_PORTABLE_COPY:-$(mktemp -d)}
[ -n "${SYNCLESS_PORTABLE_COPY:-}" ] || trap 'rm -rf "$copy"' EXIT
tar cf - --exclude '*.so' --exclude ./build --exclude './.venv*' --exclude ./.git --exclude __pycache__ . | tar xf - -C "$copy"
mkdir -p build/cython "$copy/build"
cp -a build/cython "$copy/build/" # the C files are the same
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
"$python" -c "import syncless; loop = syncless.current_loop().backend; assert loop == '$backend', loop; print('portable build, loop:', loop)"

absent=(
    # without openat2(2) no link is followed beneath a directory, not even one that stays inside
    --deselect 'tests/core/test_beneath.py::test_link_that_stays_inside_is_followed_where_the_kernel_watches'
    --deselect 'tests/wsgi/test_static.py::test_link_inside_the_directory_is_followed'
    # without preadv2(2) and RWF_NOWAIT nobody can say whether a part of a file is in memory
    --deselect 'tests/core/test_beneath.py::test_small_file_is_read_from_memory'
    --deselect 'tests/wsgi/test_static.py::test_large_file_is_brought_into_memory_by_a_thread'
)
if [ $backend = kqueue ]; then # libkqueue reads SO_ERROR, so the client does not see the reset any more
    absent+=(--deselect 'tests/wsgi/test_response.py::test_http_1_0_errors_in_mid_stream_are_a_reset')
fi
"$python" -m pytest tests/core tests/io/test_socket.py tests/io/test_messages.py tests/io/test_files.py tests/stackless \
    tests/patches/test_areas.py tests/patches/test_patches.py tests/patches/test_locks.py tests/patches/test_processes.py \
    tests/patches/test_threads.py tests/wsgi/test_wire.py tests/wsgi/test_response.py tests/wsgi/test_static.py \
    tests/wsgi/test_stop.py -m "not slow" "${absent[@]}" "$@"
