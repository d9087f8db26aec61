"""io.FileIO and the buffered files, in place: opening and closing may wait, and two tasklets may use one
file.

Fact: a buffered file has a lock of its own, and says "reentrant call" to the thread that holds it already.
Two tasklets are one thread, and the first parks inside when the pipe below is empty. Decision: a tasklet that
finds the lock taken waits for its turn here. One that is inside the file already gets the file's own error.
The lock is read in the object. Price: one read for each call. Guarded
by tests/patches/test_files.py::test_two_tasklets_on_one_buffered_file.

Fact: a file that nobody refers to any more is closed, and so flushed, by its finaliser, and what that raises
reaches nobody. Danger: a deadline or a kill that is thrown at the tasklet is lost. Decision: a finaliser of a
file raises none of it. Price: a flush that waits goes on until the other end reads. Guarded by
tests/patches/test_files.py::test_what_is_thrown_is_not_lost_in_the_finaliser_of_a_file.
"""

import _io
import mmap

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport strerror
from posix.unistd cimport close as os_close

from syncless._core.calls.files cimport (
    asks_for_the_end, close_under_waiters, closed_by, may_use_threads, opened, tried_on,
)
from syncless._core.calls.filesystems cimport (
    FileSystem, Kind, Trial, begin_call, forget, forget_files, in_pool, keep, kept, look_at, of_descriptor,
    of_path, took, tried,
)
from syncless._core.cpython.layouts cimport SynclessFileIO, buffered_owner_at, require
from syncless._core.cpython.replacing cimport (
    FINALIZE, INIT, NEW, NEXT, destructor, initproc, iternextfunc, newfunc, replace_slot, slot_of,
)
from syncless._core.current cimport take_turns
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport SHIELDED, BaseTasklet
from syncless._core.threadloop cimport peek_loop

from syncless._core.cpython.features import MAP_FLUSH_TAKES_FLAGS
from syncless._core.wait.sync import Event

require("io.FileIO objects")
require("buffered files")

cdef extern from "Python.h":
    PyObject* PyObject_CallFunctionObjArgs(object function, ...) except NULL

BUFFERED = (_io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom)
METHODS = ("read", "read1", "readinto", "readinto1", "readline", "peek", "write", "flush", "seek", "tell",
    "truncate", "close", "detach")

cdef extern from "<sys/mman.h>":
    int MS_SYNC
    int msync(void* address, size_t size, int flags) nogil

cdef object original_flush = mmap.mmap.flush
cdef object ABSENT = object()
cdef initproc original_init = NULL
cdef iternextfunc original_next = NULL
cdef newfunc original_map = NULL
cdef destructor original_finalize = NULL
cdef dict mapped = {}  # id of a mmap -> its FileSystem or None; its owner may have ended
cdef dict queues = {}                   # id of a buffered file -> Event, set when a tasklet leaves it


# -- io.FileIO -----------------------------------------------------------------------------------


def run_init(self, args, kwargs):
    """io.FileIO.__init__, the original."""
    original_init(self, args, <PyObject*> kwargs)


class FoundSlow(Exception):
    """Out of an opener: its file is on a file system that may not tell the attributes at once."""


cdef int init_by_opener(object self, tuple args, dict kwargs, object opener) except -1:
    """The opener is called here, for it may park; the file's attributes are asked for where they come at
    once, or else in a thread."""
    cdef dict named
    cdef list owned

    def direct_or_not(*asked):
        cdef FileSystem found
        fd = opener(*asked)
        found = of_descriptor(fd) if type(fd) is int and 0 <= fd <= INT_MAX else None
        if found is None or found.trial_of(run_init).direct():
            return fd
        raise FoundSlow(fd)

    named = {**kwargs, "opener": direct_or_not}
    try:
        run_init(self, args[:3], named)
    except FoundSlow as found:
        fd = found.args[0]
        owned = [fd]                            # until the file takes it, which a killed tasklet's never does
        named["opener"] = lambda *asked: owned.pop()
        try:
            tried_on(fd, run_init, run_init, (self, args[:3], named), {})
        except BaseException:
            if owned:
                os_close(<int> owned.pop())
            raise
    return 0


cdef int cooperative_init(object self, object args, PyObject* named) except -1:
    """FileIO(file, mode, closefd, opener)."""
    cdef dict kwargs
    cdef tuple positional = args
    cdef FileSystem system
    cdef Trial trial
    cdef Kind kind
    cdef int64_t started = 0
    cdef bint directly
    take_turns()
    if not may_use_threads():
        return original_init(self, args, named)
    kwargs = <dict> named if named != NULL else {}
    name = positional[0] if len(positional) else kwargs.get("file")
    opener = positional[3] if len(positional) > 3 else kwargs.get("opener")
    if opener is not None:                      # it waits, or not, by itself
        return init_by_opener(self, positional, kwargs, opener)
    if type(name) is bool:                      # the warning names the caller's line
        return original_init(self, args, named)
    if type(name) is int:
        if not 0 <= name <= INT_MAX:
            return original_init(self, args, named)
        tried_on(name, run_init, run_init, (self, args, kwargs), {})
        return 0
    forget((<SynclessFileIO*> <PyObject*> self).fd)     # which it closes, if it is made a second time
    system = of_path(name, False, None)
    trial = None if system is None else system.trial_of("open")
    directly = trial is not None and trial.direct()
    if directly:                            # as opened() does it, without a tuple and a dict
        started = begin_call()
        directly = look_at(name, -1, &kind) != 0 or not kind.fifo
    if not directly:
        opened(run_init, (self, args, kwargs), {}, name, None)
    else:
        try:
            original_init(self, args, named)
        finally:
            trial.answered(took(started), False)
    if keep((<SynclessFileIO*> <PyObject*> self).fd, self):
        keep((<SynclessFileIO*> <PyObject*> self).fd, self)
    return 0


def file_method(original):
    """Return a method of io.FileIO that may wait where the file system is slow: close, seek, truncate."""
    cdef bint closes = original.__name__ == "close", seeks = original.__name__ == "seek"

    def method(self, *args):
        cdef int fd = (<SynclessFileIO*> <PyObject*> self).fd
        cdef FileSystem system
        if fd < 0 or (seeks and not asks_for_the_end(args, 1)):
            return original(self, *args)
        system = kept(fd, self)
        if closes and self.closefd:
            close_under_waiters(fd)
            if system is None and may_use_threads():
                system = of_descriptor(fd)
            return closed_by(system, original, original, (self, *args), {})
        if system is not None and may_use_threads():
            return tried(system.trial_of(original), original, (self, *args), {})
        return tried_on(fd, original, original, (self, *args), {})
    method.__name__, method.__qualname__ = original.__name__, original.__qualname__
    method.__doc__ = original.__doc__
    return method


def run_map(type, args, kwargs):
    """mmap.mmap, the original."""
    cdef PyObject* made = original_map(<PyTypeObject*> <PyObject*> type, <PyObject*> args, <PyObject*> kwargs)
    found = <object> made
    Py_DECREF(found)
    return found


cdef PyObject* cooperative_map(PyTypeObject* type, PyObject* args, PyObject* kwargs) except NULL:
    """mmap(fileno, length ...) asks for the file's size."""
    cdef tuple positional = <object> args
    cdef FileSystem system = None
    if len(positional) and isinstance(positional[0], int) and 0 <= positional[0] <= INT_MAX:
        system = of_descriptor(positional[0])
    whole = <object> <PyObject*> type, positional, <object> kwargs if kwargs != NULL else {}
    if system is None or not may_use_threads():
        made = run_map(*whole)
    else:
        made = tried(system.trial_of(run_map), run_map, whole, {})
    mapped[<uintptr_t> <PyObject*> made] = system
    Py_INCREF(made)
    return <PyObject*> made


def map_close(original):
    """Return a method that closes a mmap, and with it a descriptor of its own."""
    def method(self, *args):
        cdef FileSystem system = mapped.pop(<uintptr_t> <PyObject*> self, None)
        if system is None or not may_use_threads():
            return original(self, *args)
        return closed_by(system, map_close, original, (self, *args), {})
    method.__name__, method.__qualname__ = original.__name__, original.__qualname__
    method.__doc__ = original.__doc__
    return method


cdef class Sync:
    """msync of a part of a mapping, in a thread: mmap.flush itself keeps the GIL while the disk writes."""
    cdef Py_buffer view
    cdef Py_ssize_t offset, size
    cdef int flags

    def __cinit__(self, mapping, Py_ssize_t offset, Py_ssize_t size, int flags):
        PyObject_GetBuffer(mapping, &self.view, PyBUF_SIMPLE)      # keeps it open meanwhile
        self.offset = offset
        self.size = size
        self.flags = flags

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    def __call__(self):
        cdef int failed
        with nogil:
            failed = msync(<char*> self.view.buf + self.offset, self.size, self.flags)
        if failed:
            raise OSError(errno, strerror(errno).decode())


def map_flush(self, offset=0, size=None, /, *, flags=0):
    """mmap.flush, cooperative; from CPython 3.15 on with ``flags``, and -1 for all that follows."""
    if not may_use_threads() or (flags and not MAP_FLUSH_TAKES_FLAGS):
        place = (offset,) if size is None else (offset, size)
        return original_flush(self, *place, flags=flags) if flags else original_flush(self, *place)
    length = len(self)
    if size is None or (size == -1 and MAP_FLUSH_TAKES_FLAGS):
        size = length - offset
    if offset < 0 or size < 0 or offset + size > length:
        raise ValueError("flush values out of range")
    return in_pool(-1, Sync(self, offset, size, flags or MS_SYNC), (), {})


# -- buffered files ------------------------------------------------------------------------------


cdef struct Inside:         # on the stack of the tasklet that is in a buffered file
    PyObject* file
    Inside* outer


cdef inline unsigned long owner_of(PyObject* file) noexcept:
    return (<unsigned long*> (<char*> file + buffered_owner_at))[0]


cdef int wait_for_turn(object file, BaseTasklet me) except -1:
    cdef Inside* frame = <Inside*> me.in_file
    while frame != NULL:
        if frame.file == <PyObject*> file:
            return 0                            # this tasklet is inside already: the file raises
        frame = frame.outer
    while owner_of(<PyObject*> file) != 0:
        event = queues.get(<uintptr_t> <PyObject*> file)
        if event is None:
            event = queues[<uintptr_t> <PyObject*> file] = Event()
        event.wait()
    return 0


cdef int left(object file) except -1:
    event = queues.pop(<uintptr_t> <PyObject*> file, None)
    if event is not None:
        event.set()
    return 0


cdef PyObject* within(object file, PyObject* function, iternextfunc next, object first,
        object second) except? NULL:
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = loop.current if loop is not None else None
    cdef Inside frame
    if me is not None:
        if owner_of(<PyObject*> file) != 0:
            wait_for_turn(file, me)
        frame.file = <PyObject*> file
        frame.outer = <Inside*> me.in_file
        me.in_file = &frame
    try:
        if next != NULL:
            return next(<PyObject*> file)
        if first is ABSENT:
            return PyObject_CallFunctionObjArgs(<object> function, <PyObject*> file, NULL)
        if second is ABSENT:
            return PyObject_CallFunctionObjArgs(<object> function, <PyObject*> file, <PyObject*> first, NULL)
        return PyObject_CallFunctionObjArgs(<object> function, <PyObject*> file, <PyObject*> first,
            <PyObject*> second, NULL)
    finally:
        if me is not None:
            me.in_file = frame.outer
        if queues:
            left(file)


cdef PyObject* cooperative_next(PyObject* file) except? NULL:
    return within(<object> file, NULL, original_next, ABSENT, ABSENT)


def buffered_method(original):
    """Return a method of a buffered file that waits for its turn."""
    cdef bint stays = original.__name__ in ("seek", "peek")  # in the buffer, time after time

    def method(self, first=ABSENT, second=ABSENT, /):
        if stays:
            take_turns()
        cdef PyObject* result = within(self, <PyObject*> original, NULL, first, second)
        found = <object> result
        Py_DECREF(found)
        return found
    method.__name__, method.__qualname__ = original.__name__, original.__qualname__
    method.__doc__ = original.__doc__
    return method


cdef void cooperative_finalize(PyObject* file) noexcept:
    """The end of a file that nobody closed: nothing is raised in it."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = loop.current if loop is not None else None
    cdef int before
    if me is None:
        original_finalize(file)
        return
    before, me.shielded = me.shielded, SHIELDED
    original_finalize(file)
    me.shielded = before


cdef int exchange(bint cooperative, object type, size_t slot, str name, void* original, void* ours) except -1:
    if cooperative:
        return replace_slot(type, slot, name, original, ours)
    return replace_slot(type, slot, name, ours, original)


def set_slots(bint cooperative) -> None:
    """Set the slots that the interpreter calls without looking for a method: opening a FileIO, mapping one,
    the next line of a buffered file, the finaliser of each kind of file."""
    global original_init, original_next, original_map, original_finalize
    if cooperative == (original_init != NULL):
        return
    if cooperative:
        original_init = <initproc> slot_of(_io.FileIO, INIT)
        original_map = <newfunc> slot_of(mmap.mmap, NEW)
        original_next = <iternextfunc> slot_of(_io.BufferedReader, NEXT)
        original_finalize = <destructor> slot_of(_io._IOBase, FINALIZE)
    exchange(cooperative, _io.FileIO, INIT, "__init__", <void*> original_init, <void*> cooperative_init)
    exchange(cooperative, mmap.mmap, NEW, "__new__", <void*> original_map, <void*> cooperative_map)
    for kind in (_io.BufferedReader, _io.BufferedRandom):
        exchange(cooperative, kind, NEXT, "__next__", <void*> original_next, <void*> cooperative_next)
    exchange(cooperative, _io._IOBase, FINALIZE, "__del__", <void*> original_finalize,
        <void*> cooperative_finalize)
    if not cooperative:
        forget_files()
        original_init = NULL
