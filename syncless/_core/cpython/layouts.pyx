"""The private layouts of the interpreter's objects, and the probes that tell whether this Python has them.

Fact: the fields of sockets, locks and files are in no public header. Danger: another layout would let us read
and write foreign memory. Decision: layouts.pxd is the one place that declares them, and a module that reads
one calls require() first, which compares the fields of a fresh object with what its methods say. An unknown
layout is an ImportError. Price: a few microseconds per import. Guarded by tests/core/test_layouts.py.
"""

import _io
import _socket
import _thread
import os
import select

from cpython.dict cimport PyDict_CheckExact
from cpython.object cimport PyObject

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

cdef Py_ssize_t buffered_owner_at = 0


cdef int require(str kind) except -1:
    """ImportError unless the layout of that kind of object is the one that layouts.pxd declares."""
    if not PROBES[kind]():
        raise ImportError(
            f"this Python's {kind} have an unknown layout; syncless supports CPython 3.10 to 3.13")
    return 0


def _knows_sockets():
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        probe.settimeout(1.5)
        fields = (<socket> probe).sock_fd, (<socket> probe).sock_family, (<socket> probe).sock_timeout
        return fields == (probe.fileno(), probe.family, 1500000000)
    finally:
        probe.close()


def _knows_files():
    with _io.FileIO(os.devnull) as probe:
        file = <SynclessFileIO*> <PyObject*> probe
        return (file.fd, file.readable, file.writable) == (probe.fileno(), 1, 0)


def _knows_locks():
    lock = _thread.allocate_lock()
    for held in (False, True):
        if bool((<SynclessLock*> <PyObject*> lock).locked) is not held:
            return False
        lock.acquire(False)
    rlock = _thread.RLock()
    rlock.acquire()
    rlock.acquire()
    fields = (<SynclessRLock*> <PyObject*> rlock).owner, (<SynclessRLock*> <PyObject*> rlock).count
    return fields == (_thread.get_ident(), 2)


def _knows_polls():
    cdef PyObject* watched
    if not hasattr(select, "poll"):
        return True                     # nothing will be read
    probe = select.poll()
    probe.register(5, 3)
    probe.register(4, 1)
    if type(probe).__basicsize__ < 4 * sizeof(void*):
        return False
    watched = (<SynclessPoll*> <PyObject*> probe).watched
    return watched != NULL and PyDict_CheckExact(<object> watched) and <object> watched == {5: 3, 4: 1}


def _knows_buffered_files():
    """Reads one byte through a buffered file, and looks meanwhile where it has noted this thread."""
    global buffered_owner_at
    size = _io.BufferedReader.__basicsize__
    file = None
    found = []

    class Probe(_io._RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            for offset in range(sizeof(PyObject), size - sizeof(long) + 1, sizeof(long)):
                place = <unsigned long*> (<char*> <PyObject*> file + <Py_ssize_t> offset)
                if place[0] == PyThread_get_thread_ident():
                    found.append(offset)
            return 0

    file = _io.BufferedReader(Probe())
    file.read(1)
    for offset in found:
        if (<unsigned long*> (<char*> <PyObject*> file + <Py_ssize_t> offset))[0] == 0:
            buffered_owner_at = offset
    file.detach()
    return buffered_owner_at != 0


cdef dict PROBES = {
    "socket objects": _knows_sockets,
    "io.FileIO objects": _knows_files,
    "locks": _knows_locks,
    "poll objects": _knows_polls,
    "buffered files": _knows_buffered_files,
}
