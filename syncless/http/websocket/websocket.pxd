"""A WebSocket of one request. See websocket.pyx."""

from syncless._core.wait.sync cimport Lock
from syncless.http.exchange cimport Upgrade
from syncless.http.request cimport Request
from syncless.http.websocket.frames cimport Frames


cdef enum Heard:            # hear() has found
    NOTHING                 # that has come and is not read
    MESSAGE                 # a whole one
    OTHER                   # something that receive() has to deal with


cdef class WebSocket:
    cdef Upgrade upgrade
    cdef Request request
    cdef bint answers_close
    cdef Py_ssize_t most            # bytes of a message
    cdef object library             # library.py, once the handshake is looked at
    cdef tuple agreed               # the fields of the handshake, and what it says of compression
    cdef Frames frames              # None: it is not accepted
    cdef Lock receiving, sending
    cdef object message             # that has come and is not given out, or None
    cdef bint unmet                 # hear() has read a frame, and did nothing about it
    cdef object broken              # or has met this Broken
    cdef bint pinged
    cdef bint gone
    cdef bint leaving               # tell_stop() has been called
    cdef bint answered              # the client has sent its close frame
    cdef tuple unanswered           # that frame: code, reason, payload
    cdef readonly object close_code
    cdef readonly str close_reason
    cdef readonly str subprotocol
    cdef dict __dict__              # an application may keep something with it
    cdef object __weakref__

    cpdef receive(self)
    cdef object taken(self)
    cdef Heard hear(self) except *
    cdef Heard look(self) except *
    cdef int meet_silence(self) except -1
    cdef bint may_frame(self, object message) noexcept
    cdef bytes framed(self, object message)
    cdef int check_open(self) except -1
    cdef int make_room(self) except -1
    cdef int write(self, bytes frame) except -1
    cdef int leave(self) except -1
    cdef int read(self) except -1
    cdef bint take_rest(self) except -1
    cdef int take(self, int opcode, bytes data, bint fin) except -1
    cdef int closes(self, bytes data) except -1
    cdef int wait(self) except -1
    cdef int meet_answer(self) except -1
    cdef int whole(self, object message) except -1
    cdef int answer(self, int opcode, bytes data) except -1
    cdef int fail(self, object code, str reason) except -1
    cdef int lost(self) except -1
