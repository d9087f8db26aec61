"""Methods of io.FileIO, on which the buffered and text files stand: descriptors.pyx for objects.

Each parks where it would wait. In a thread without a loop the original is called. They are not in
descriptors.pyx because a Python whose io.FileIO is unknown is to lose files, and not sockets, which need that
module, too (tests/patches/test_unknown_pythons.py).
"""

import os

import _io

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from posix.types cimport off_t

from syncless._core.calls.descriptors cimport HERE, PIECE, read_into, reading, writing
from syncless._core.calls.filesystems cimport Kind, kept, look
from syncless._core.cpython.layouts cimport SynclessFileIO, require
from syncless._core.current cimport may_park, take_turns_on
from syncless._core.poll.poller cimport READ, WRITE

from syncless._core.cpython.functions import original_of

cdef extern from "<unistd.h>" nogil:
    off_t lseek(int fd, off_t offset, int whence)
    int SEEK_CUR

cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject** data, Py_ssize_t size) except -1
    Py_ssize_t Py_REFCNT(PyObject* one)

require("io.FileIO objects")

cdef object file_type = _io.FileIO
cdef object original_readinto = original_of(_io.FileIO.readinto)
cdef object original_readall = original_of(_io.FileIO.readall)
cdef object original_read = original_of(_io.FileIO.read)
cdef object original_write = original_of(_io.FileIO.write)
cdef object original_isatty = original_of(_io.FileIO.isatty), os_isatty = original_of(os.isatty)


cdef SynclessFileIO* opened(object self, int bit) except? NULL:
    """Return the file's fields, or NULL if its own method is to be called: it is closed, no FileIO, or
    nothing can be parked. Others may have their turn first."""
    cdef SynclessFileIO* file
    if not may_park() or not isinstance(self, file_type):
        return NULL
    file = <SynclessFileIO*> <PyObject*> self
    if file.fd >= 0:
        take_turns_on(file.fd, bit)
    return file if file.fd >= 0 else NULL


def file_readinto(self, buffer, /):
    """io.FileIO.readinto, cooperative."""
    cdef Py_buffer view
    cdef SynclessFileIO* file = opened(self, READ)
    if file == NULL or not file.readable:
        return original_readinto(self, buffer)
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        return read_into(file.fd, buffer, <char*> view.buf, view.len, HERE, kept(file.fd, self))
    except BlockingIOError:
        return None
    finally:
        PyBuffer_Release(&view)


def file_read(self, size=-1, /):
    """io.FileIO.read, cooperative."""
    cdef SynclessFileIO* file = opened(self, READ)
    if file == NULL or not file.readable:
        return original_read(self, size)
    if size is None or size < 0:
        return file_readall(self)
    try:
        return reading(file.fd, size, HERE, kept(file.fd, self))
    except BlockingIOError:
        return None


def file_readall(self):
    """io.FileIO.readall, cooperative."""
    cdef SynclessFileIO* file = opened(self, READ)
    cdef Kind kind
    if file == NULL or not file.readable:
        return original_readall(self)
    if look(file.fd, &kind) == 0 and kind.file:
        return rest_of_file(self, file.fd, kind.size)
    pieces = []
    while True:
        try:
            piece = reading(file.fd, 65536, HERE)
        except BlockingIOError:
            return b"".join(pieces) if pieces else None
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


cdef object resized(PyObject* whole, Py_ssize_t size, Py_ssize_t used):
    """Return bytes of this size that begin with those that are used. Take the reference over: if it is the
    only one, the object itself is resized. A thread that has read into it may have let go of it not yet."""
    if Py_REFCNT(whole) == 1:
        _PyBytes_Resize(&whole, size)
        data = <object> whole
    else:
        data = PyBytes_FromStringAndSize(NULL, size)
        memcpy(PyBytes_AS_STRING(data), PyBytes_AS_STRING(<object> whole), used)
    Py_DECREF(<object> whole)
    return data


cdef object rest_of_file(object self, int fd, int64_t size):
    """In one piece of memory, made as large as the file seems to be: some say 0, and some grow."""
    cdef off_t here = lseek(fd, 0, SEEK_CUR)
    cdef Py_ssize_t room = max(0, size - here) + 1 if 0 <= here else 1, done = 0, n
    cdef PyObject* whole
    if room < PIECE:
        room = PIECE
    data = PyBytes_FromStringAndSize(NULL, room)
    while True:
        n = read_into(fd, data, PyBytes_AS_STRING(data) + done, room - done, HERE, kept(fd, self))
        done += n
        if done < room:
            break
        room += max(room >> 1, <Py_ssize_t> 65536)
        whole = <PyObject*> data
        Py_INCREF(data)
        data = None                 # the only reference left here is the one that is taken over
        data = resized(whole, room, done)
    whole = <PyObject*> data
    Py_INCREF(data)
    data = None
    return resized(whole, done, done)


def file_write(self, data, /):
    """io.FileIO.write, cooperative."""
    cdef SynclessFileIO* file = opened(self, WRITE)
    if file == NULL or not file.writable:
        return original_write(self, data)
    try:
        return writing(file.fd, data, HERE, kept(file.fd, self))
    except BlockingIOError:
        return None


cdef bint is_file(int fd) noexcept:
    cdef Kind kind
    return look(fd, &kind) == 0 and kind.file


def file_isatty(self, /):
    """io.FileIO.isatty: a file is no terminal, and its file system, which may be slow, is not asked."""
    cdef int fd
    if may_park() and isinstance(self, file_type):
        fd = (<SynclessFileIO*> <PyObject*> self).fd
        if kept(fd, self) is not None or is_file(fd):
            return False
    return original_isatty(self)


def isatty(fd, /):
    """os.isatty, in the same way."""
    if type(fd) is int and 0 <= fd <= INT_MAX and may_park() and is_file(fd):
        return False
    return os_isatty(fd)
