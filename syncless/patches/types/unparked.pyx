"""Waits of code that cannot park: on the loop itself, and in a step that must not wait (directly()).

Takes a lock or a queue that is not to be had now. Gives it, if an OS thread gives it back, or an error. A
tasklet of this thread never runs again while the thread waits, so the thread would stand still for ever.
Finalisers, hooks and callbacks get here with any lock.

Fact: a Lock may be released by another than its holder, and what waits in a Condition, or for a module to be
imported, holds the very Lock that it waits for. Danger: nobody can tell whether an OS thread will release it.
Decision: where a tasklet of this thread is known to hold it, an error names both. Else the thread waits,
except for PATIENCE only, or not at all if it is the only one; then there is an error as well. Others do not
get their turns instead: the code of the loop is not made for what they would do to it in the midst of a step.
Guarded by tests/patches/test_loop_locks.py.
"""

import sys

from libc.stdint cimport int64_t

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.threadloop cimport peek_loop

from syncless._core.cpython.functions import original_of
from syncless._core.wait.sync import Waits

cdef enum:
    PATIENCE = 5_000_000_000    # ns

cdef object get_frame = sys._getframe
cdef object current_frames = original_of(sys._current_frames)


cdef bint is_on_loop() noexcept:
    """Return whether the calling thread has a loop, whose tasklets could be what it waits for."""
    return peek_loop() is not None and not Py_IsFinalizing()


cdef object seconds_to(int64_t deadline):
    """For the interpreter's own acquire()."""
    return -1 if deadline == NEVER else max(0.0, (deadline - monotonic_ns()) / 1e9)


cdef bint acquire_alone(object lock, object original, int64_t deadline) except -1:
    """Return whether the lock has been acquired before the deadline. `original`: the interpreter's own
    acquire()."""
    cdef int64_t until
    if not is_on_loop():
        return original(lock, True, seconds_to(deadline))
    until = patience(lock, deadline)
    if original(lock, True, seconds_to(until)):
        return True
    return False if until == deadline else refuse(lock, None)


cdef int64_t patience(object thing, int64_t deadline) except -1:
    """Until when the thread waits for a lock or a queue. Raise RuntimeError if that is in vain."""
    cdef int64_t until = monotonic_ns() + PATIENCE
    cdef BaseTasklet holder = holder_of(thing)
    if holder is not None or (deadline == NEVER and len(current_frames()) == 1):
        refuse(thing, holder)
    return until if deadline == NEVER else min(until, deadline)


cdef BaseTasklet holder_of(object thing):
    """Return the tasklet of this loop that holds it, as far as it is known, or None."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet found = None
    waits = Waits()
    module_lock = module_lock_above()
    if module_lock is not None:
        found = waits.owner(module_lock.owner)
    if found is None:
        found = waits.holder(thing)
        if found is loop.still:                 # its own lock is a signal, which others release
            return None
    return found if found is not None and found.loop is loop else None


cdef object module_lock_above():
    """Return the lock of a module for which the import system, which has called this, waits, or None. It
    waits by a Lock that it has taken itself."""
    try:
        frame = get_frame(0)
    except ValueError:
        return None
    one = frame.f_locals.get("self")
    return one if type(one).__name__ == "_ModuleLock" and frame.f_code.co_name == "acquire" else None


cdef str place():
    """Return the line of Python that waits."""
    try:
        frame = get_frame(0)
    except ValueError:
        return ""
    while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return f" ({frame.f_code.co_name}, {frame.f_code.co_filename}:{frame.f_lineno})"


cdef bint refuse(object thing, BaseTasklet holder) except -1:
    cdef BaseTasklet me = peek_loop().still
    module_lock = module_lock_above()
    what = f"module {module_lock.name!r}" if module_lock is not None else repr(thing)
    waiter = "the event loop itself" if me is None else f"{me!r}, in a step that must not wait,"
    if holder is None:
        raise RuntimeError(
            f"{waiter} cannot wait any longer for {what}{place()}: a tasklet of this thread may have to "
            "release it; let a tasklet do this")
    raise RuntimeError(
        f"{waiter} cannot wait for {what}{place()}, which {holder!r} of this thread holds; let a tasklet do "
        "this")
