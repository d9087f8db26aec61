#!/usr/bin/env bash
# Builds a copy of this checkout as on a system without the facilities of Linux, and runs the tests of the engine,
# the sockets, the patch, Stackless and the server with it. PYTHON=... must have the group `test`; further arguments
# are pytest's, SYNCLESS_PORTABLE_COPY=folder keeps the copy.
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
export PYTHONPATH=$copy
SYNCLESS_PORTABLE=1 SYNCLESS_BUILD=debug "$python" setup.py --quiet build_ext --inplace
"$python" -c 'import syncless; loop = syncless.current_loop().backend; assert loop != "epoll", loop; print("portable build, loop:", loop)'
# These are promised only where the kernel has openat2 and RWF_NOWAIT, or waits by the nanosecond.
absent=(
    --deselect 'tests/core/test_beneath.py::test_link_that_stays_inside_is_followed_where_the_kernel_watches'
    --deselect 'tests/core/test_beneath.py::test_small_file_is_read_from_memory'
    --deselect 'tests/core/test_model.py::test_order_and_times_are_those_of_the_model'
    --deselect 'tests/core/test_tasklet.py::test_sleep_is_as_long_as_asked'
    --deselect 'tests/wsgi/test_static.py::test_link_inside_the_directory_is_followed'
    --deselect 'tests/wsgi/test_static.py::test_large_file_is_brought_into_memory_by_a_thread'
)
"$python" -m pytest tests/core tests/io/test_socket.py tests/io/test_messages.py tests/io/test_files.py tests/stackless \
    tests/patches/test_areas.py tests/patches/test_patches.py tests/patches/test_locks.py tests/patches/test_processes.py \
    tests/patches/test_threads.py tests/wsgi/test_wire.py tests/wsgi/test_response.py tests/wsgi/test_static.py \
    tests/wsgi/test_stop.py -m "not slow" "${absent[@]}" "$@"
