"""Units in C, reachable from the tests in Python; built by the fixture `units`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable, Scheduler
from syncless._core.threadloop cimport get_loop
from syncless.http.listener cimport (
    QUEUE_DEADLINE, Admission, DeadlineNode, Deadlines, Flusher, Reached, ResponseHeads, flush_t,
    next_of,
)
from syncless.http.stream cimport (
    Buffer, Buffers, Input, Stream, TlsLayer, borrow_input, close_stream, free_stream, receive_more,
    return_input, send_pending, transmit,
)

from syncless.http.limits import Limits
from syncless.http.priorities import NORMAL

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)


cdef class Owner:
    """Has a deadline; `when_due(kind)` is called at its expiry, `when_flushed()` by a flusher."""
    cdef DeadlineNode node
    cdef public object when_due, when_flushed
    cdef object __weakref__

    def __cinit__(self, when_due=None, when_flushed=None):
        self.when_due = when_due
        self.when_flushed = when_flushed

    @property
    def kind(self):
        return self.node.kind

    @property
    def when(self):
        return self.node.when


cdef int expire(Loop loop, object owner, int kind) except -1:
    (<Owner> owner).when_due(kind)
    return 0


cdef int flush(Loop loop, object owner) except -1:
    (<Owner> owner).when_flushed()
    return 0


cdef class Times:
    """Deadlines for Owners."""
    cdef Deadlines deadlines

    def __cinit__(self, **seconds):
        self.deadlines = Deadlines(get_loop())
        self.deadlines.expire = expire
        for kind, length in seconds.items():
            self.deadlines.allow(int(kind[1:]), <int64_t> (length * 1e9))

    def start(self, Owner owner not None, int kind):
        self.deadlines.start(&owner.node, kind, owner)

    def stop(self, Owner owner not None):
        self.deadlines.stop(&owner.node)

    def began(self, Owner owner not None):
        return self.deadlines.began(&owner.node)

    def expire_due(self, now):
        return self.deadlines.expire_due(now)

    def due_by(self, when):
        self.deadlines.due_by(when)

    def close(self):
        self.deadlines.close()

    def listed(self, int kind):
        """The owners in the list of a kind, first to expire first."""
        cdef DeadlineNode* node = self.deadlines.first(kind)
        cdef DeadlineNode* before = NULL
        owners = []
        while node != NULL:
            assert <DeadlineNode*> node.place.before == before
            owners.append(<object> node.place.owner)
            before = node
            node = next_of(node)
        assert <DeadlineNode*> self.deadlines.lists[kind].nodes.last == before
        return owners

    @property
    def count(self):
        return self.deadlines.count()

    @property
    def timer(self):
        """When the timer fires, or None."""
        return self.deadlines.timer.when if self.deadlines.timer.index >= 0 else None


cdef class Bytes:
    """A Buffer that gives its memory back when it ends."""
    cdef Buffers buffers
    cdef Buffer buffer

    def __cinit__(self, Buffers buffers not None):
        self.buffers = buffers

    def __dealloc__(self):
        self.buffers.release(&self.buffer)

    def append(self, bytes data not None):
        self.buffers.append(&self.buffer, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def hold(self, bytes data not None):
        self.buffers.hold(&self.buffer, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def reserve(self, size_t size):
        self.buffers.reserve(&self.buffer, size)

    def release(self):
        self.buffers.release(&self.buffer)

    def pretend(self, unsigned size, unsigned room):
        """Makes the buffer say that `size` bytes are used of `room`; returns what it said before."""
        before = self.buffer.size, self.buffer.room
        self.buffer.size, self.buffer.room = size, room
        return before

    @property
    def room(self):
        return self.buffer.room

    def __bytes__(self):
        return PyBytes_FromStringAndSize(self.buffer.data, self.buffer.size)


def owned(Buffers buffers not None):
    """(buffers with memory, bytes of it, free blocks)."""
    return buffers.lent, buffers.held, buffers.free_blocks


def flusher():
    made = Flusher(get_loop())
    made.flush = <flush_t> flush
    return made


def add(Flusher flusher not None, Owner owner not None):
    flusher.add(owner)


def flush_all(Flusher flusher not None):
    flusher.flush_all()


def add_earlier(Flusher flusher not None, Owner owner not None, ns):
    """As add(), so long ago."""
    flusher.add(owner)
    flusher.since -= ns


def pending(Flusher flusher not None):
    return flusher.count


cdef class Heads:
    """A listener's response heads."""
    cdef ResponseHeads heads

    def __cinit__(self):
        self.heads = ResponseHeads()

    def status(self, status):
        code = self.heads.status_code(status)
        return code, self.heads.status_line

    def dates(self):
        return self.heads.dates()

    def remember(self, status, list headers, bytes head, length=-1, closes=False):
        cdef Buffer block
        block.data = PyBytes_AS_STRING(head)
        block.size = block.room = len(head)
        self.heads.dates()
        self.heads.remember(status, headers, &block, length, closes)

    def last(self, status, list headers):
        """(head, length, closes), or None."""
        if not self.heads.is_last(status, headers):
            return None
        return self.heads.head, self.heads.length, bool(self.heads.closes)


cdef class Waiter(Runnable):
    """Waits for its turn; `when_run()` is called then, `when_late()` when it has waited for too long."""
    cdef DeadlineNode node
    cdef object when_run, when_late

    def __cinit__(self, when_run, when_late):
        self.when_run = when_run
        self.when_late = when_late

    cdef int turn(self, Scheduler loop) except -1:
        self.when_run()
        return 0


cdef int give_up(Loop loop, object owner, int kind) except -1:
    (<Waiter> owner).when_late()
    return 0


class Silent:
    """An error log."""
    def entry(self, *_args):
        pass


cdef class Turns:
    """Admission of Waiters, which wait for at most `seconds`, counted from the loop's last turn: the test
    before may have held it for long."""
    cdef Deadlines deadlines
    cdef readonly Admission admission

    def __cinit__(self, requests, queued, seconds=3600, priorities=None):
        self.deadlines = Deadlines(get_loop())
        self.deadlines.expire = give_up
        self.deadlines.allow(QUEUE_DEADLINE, <int64_t> (seconds * 1e9))
        self.admission = Admission(
            self.deadlines, Reached(get_loop(), Limits(), Silent()), requests, queued, priorities)

    def begin(self):
        return bool(self.admission.begin(NORMAL))

    def end(self, rank=NORMAL, seconds=0):
        self.admission.end(rank, monotonic_ns() - <int64_t> (seconds * 1e9))

    def exempt_now(self):
        cdef uint8_t rank = NORMAL
        self.admission.exempt_now(&rank)

    def queue(self, Waiter waiter not None, rank=NORMAL):
        return bool(self.admission.queue(&waiter.node, waiter, rank))

    def leave(self, Waiter waiter not None):
        self.admission.leave(&waiter.node)

    def expire(self):
        self.admission.expire()


cdef class Wire:
    """The stream of a descriptor, which is its own from now on; `layer`: a TlsLayer, or None."""
    cdef Stream stream
    cdef Buffers buffers
    cdef Input input

    def __cinit__(self, Buffers buffers not None, int fd, TlsLayer layer=None):
        self.buffers = buffers
        self.stream.fd = fd
        self.stream.readable = True
        if layer is not None:
            Py_INCREF(layer)
            self.stream.layer = <PyObject*> layer

    def __dealloc__(self):
        free_stream(&self.stream, self.buffers)

    def receive(self):
        """What receive_more() says, and the inbox."""
        self.stream.readable = True
        got = receive_more(&self.stream, self.buffers)
        return got, self.inbox()

    def inbox(self):
        return self.stream.inbox.data[:self.stream.inbox.size] if self.stream.inbox.size else b""

    def borrow(self):
        self.input.size = 0
        return borrow_input(&self.stream, self.buffers, &self.input)

    def borrowed(self):
        return self.input.data[:self.input.size]

    def give_back(self, used):
        return_input(&self.stream, self.buffers, &self.input, used)

    def close(self):
        close_stream(&self.stream, self.buffers, get_loop())

    def put(self, bytes data not None):
        """Behind what is to be sent."""
        self.buffers.append(&self.stream.out, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def send_pending(self):
        return send_pending(&self.stream, self.buffers)

    def transmit(self, bytes data not None):
        return transmit(&self.stream, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), NULL, 0)
