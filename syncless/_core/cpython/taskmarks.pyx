"""The mark of an asyncio task that is to raise CancelledError at its next await.

Import asyncio first. Next to read: asyncio/uncancel.py, which says what this is for.
"""

import _asyncio

from cpython.object cimport PyObject

from syncless._core.cpython.layouts cimport must_cancel_at, must_cancel_bit, require

require("tasks of asyncio")

cdef object task_type = _asyncio.Task


def drop_cancellation(task) -> None:
    """The task does not raise CancelledError any more for the calls of cancel() that it has not noticed. A
    task that is no asyncio.Task is left alone."""
    if isinstance(task, task_type):
        (<unsigned char*> <PyObject*> task)[must_cancel_at] &= ~must_cancel_bit
