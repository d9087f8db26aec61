"""The end of an OS thread wakes the tasklets that join it.

Fact: up to CPython 3.12 threading joins a thread by a lock that the interpreter releases in C when the thread
state is deleted, so no replaced method of the lock sees it. Danger: the tasklets that wait for the lock would
wait for ever. Decision: the thread state's own hook for its end calls the interpreter's function first and
then wakes the first waiter of the lock. Since 3.13 there is no such lock; threads are joined through their
handle (patches/threads.py). Guarded by tests/patches/test_threads.py.
"""

from cpython.object cimport PyObject

from syncless._core.cpython cimport threadend
from syncless.patches.native.waiters cimport wake_first


cdef void thread_ended(PyObject* lock) noexcept:
    wake_first(<object> lock)


def watch_threads() -> None:
    """Tasklets may join the OS threads that have been started so far."""
    threadend.watch_threads(thread_ended)
