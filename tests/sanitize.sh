#!/usr/bin/env bash
# Builds the native modules with AddressSanitizer and UndefinedBehaviorSanitizer in a copy of the tree and runs the
# tests of the engine, the sockets, the hooks in C libraries and the server there; with `--quick` only those of the
# engine and of HTTP; with `--simulate ARGUMENTS` the simulator. Every object comes from malloc, so that each has its own red zones. Stack red zones are off:
# greenlets copy stacks in and out, which AddressSanitizer takes for a fault.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
tree=build/sanitize
# a copy made anew, so that nothing deleted lingers in it, unless another run has just made it
[ "${1:-}" = --simulate ] || rm -rf "$tree"
mkdir -p "$tree"
tests/copy.sh "$tree"
mkdir -p "$tree/build"
[ ! -d build/cython ] || [ -d "$tree/build/cython" ] || cp -rp build/cython "$tree/build/" # only what changed since is translated again
cd "$tree"
"$python" -m pip install --quiet 'setuptools>=77' 'Cython>=3.3,<4'
SYNCLESS_BUILD=asan "$python" setup.py --quiet build_ext --inplace
# GCC's sanitizer stands before crypt(), and calls address 0 if the library that has it is not loaded at the start
crypt=$(gcc -print-file-name=libcrypt.so.1)
[ -f "$crypt" ] || crypt=
export LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so) $crypt"
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:halt_on_error=1:abort_on_error=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:abort_on_error=1
export PYTHONMALLOC=malloc PYTHONPATH=$PWD SYNCLESS_TEST_SECONDS=300 SYNCLESS_TEST_STORMS=60
"$python" -c 'import syncless._core.loop as loop; assert "sanitize" in loop.__file__, loop.__file__'
if [ "${1:-}" = --simulate ]; then
    exec "$python" -m tests.simulate "${@:2}"
fi
# a report goes to the standard error, which pytest would keep for the end of the test: it never comes
export PYTEST_ADDOPTS=--capture=sys
# these start compilers, and run no native code of this build
not_here=(--ignore tests/core/test_builds.py --ignore tests/core/test_elsewhere.py)
if [ "${1:-}" = --quick ]; then
    "$python" -m tests tests/core tests/http/units -m "not slow and not realtime" "${not_here[@]}" "${@:2}"
    exec "$python" -m tests.fuzz --seconds 5
fi
# the workers' master is Python, and its tests send signals that the sanitizer takes for faults
not_workers=(--ignore tests/server/test_workers.py --ignore tests/server/test_reload.py --ignore tests/server/test_recycling.py)
not_workers+=(--ignore tests/asgi/test_workers.py --ignore tests/asgi/test_program.py)
# of the native handlers' tests those that neither compile handlers of other languages nor signal processes
handlers=(tests/native/test_native_{server,steps,faults,operating,wire}.py)
"$python" -m tests -m "" tests/core tests/tools tests/asyncio tests/io tests/stackless tests/http tests/http2 tests/server \
    tests/asgi tests/wsgi \
    tests/patches/test_elfreader.py tests/patches/test_kdf.py tests/patches/test_native.py \
    "${handlers[@]}" "${not_here[@]}" "${not_workers[@]}" "$@"
"$python" -m tests.fuzz --seconds 20
