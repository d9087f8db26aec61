"""The table of contents of halves.pyx."""

from syncless.asyncio.callbacks cimport Descriptor, ReadyHandle


cdef class Endpoint(Descriptor):
    cdef object loop                # None once the connection is lost
    cdef object protocol
    cdef int lost                   # 0: connected; else how often it was written to since then
    cdef bint closing

    cdef object went_wrong(self, error, message)
    cdef int finish_closing(self) except -1
    cdef int follow(self) except -1
    cdef int forget(self) except -1


cdef class Half(ReadyHandle):
    cdef Endpoint endpoint
    cdef bint more                  # the socket may be ready again, as far as is known
    cdef str trouble                # message for the exception that is about to be raised, or None

    cdef object go_on(self)
    cdef bint is_wanted(self) noexcept
    cdef int look_again(self) except -1


cdef class Reader(Half):
    cdef object get_buffer          # of a BufferedProtocol, else None
    cdef bint glues                 # a read that fills less than its buffer has read all
    cdef bint hung_up               # the end of what the peer sends has been reported, and not been read
    cdef bint paused

    cdef int begin(self, Endpoint endpoint, bint glues, object context) except -1
    cdef int give_to(self, object protocol) except -1
    cdef int reported(self, int bits) except -1
    cdef object read(self)
    cdef object read_into_buffer(self)
    cdef object read_none(self, ssize_t n, int error)
    cdef int reached_end(self) except -1


cdef class WriteBuffer:
    cdef list parts                 # bytes objects; those before `first` have been sent
    cdef Py_ssize_t first
    cdef Py_ssize_t skip            # bytes of parts[first] that have been sent
    cdef readonly Py_ssize_t size   # bytes that have not

    cdef int put(self, object data, Py_ssize_t sent) except -1
    cdef int transmit(self, int fd) except -1
    cdef int drop(self, Py_ssize_t sent) except -1
    cdef int clear(self) except -1


cdef class Writer(Half):
    cdef WriteBuffer unsent
    cdef Py_ssize_t high, low       # bytes that are unsent when the protocol is told to pause and to go on
    cdef object empty_waiter        # in a sendfile(): Future for the moment when nothing is unsent; or None
    cdef bint ended                 # write_eof() was called
    cdef bint protocol_paused

    cdef int begin(self, Endpoint endpoint, object context) except -1
    cdef int write(self, object data) except -1
    cdef int write_all(self, list pieces) except -1
    cdef int end(self) except -1
    cdef int check(self, str function, Py_ssize_t size) except -1
    cdef int wait_for_room(self) except -1
    cdef int all_sent(self) except -1
    cdef int shut_down(self) except -1
    cdef int set_limits(self, object high, object low) except -1
    cdef int may_pause_protocol(self) except -1
    cdef int may_resume_protocol(self) except -1
    cdef int tell_protocol(self, str method) except -1
