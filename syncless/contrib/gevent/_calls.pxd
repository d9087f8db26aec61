"""What is due in a hub, and the watchers that make it due. See _calls.pyx."""

from syncless._core.loop cimport Loop, Watcher as Watched
from syncless._core.timers cimport Timer as Deadline
from syncless._core.wait.sync cimport Event
from syncless.contrib.gevent._turns cimport Turns


cdef class Callback:
    cdef public object callback, args


cdef class Calls:
    cdef readonly Turns turns
    cdef Loop engine
    cdef public object error_handler
    cdef readonly long iteration
    cdef public bint ended
    cdef readonly Event over        # nothing is left to do
    cdef list callbacks             # those before `first` have been called
    cdef Py_ssize_t first
    cdef list due                   # watchers
    cdef readonly set active        # watchers
    cdef readonly list rounds       # those that are called in each round
    cdef dict descriptors           # number -> Descriptor

    cdef Callback add(self, object function, tuple args)
    cpdef make_due(self, Watcher watcher)
    cdef int count(self, Py_ssize_t change) except -1
    cdef int run_round(self) except -1
    cdef bint begins(self, object function, tuple args, object source) except -1
    cdef int call(self, object function, tuple args) except -1


cdef class Watcher:
    cdef readonly Calls loop
    cdef object _callback, _args, _priority
    cdef bint _ref
    cdef readonly bint active
    cdef public bint due
    cdef object __weakref__

    cdef int start_with(self, object callback, tuple args) except -1
    cdef int must_rest(self, str what) except -1
    cpdef stop(self)
    cpdef begin(self)
    cpdef end(self)
    cpdef fire(self)


cdef class Timer(Watcher):
    cdef Deadline deadline
    cdef double _after, _repeat
    cdef bint held                  # by the deadline

    cdef int set(self, double seconds) except -1
    cdef int unset(self) except -1


cdef class Io(Watcher):
    cdef int _fd, _events, came
    cdef bint pass_events
    cdef Descriptor descriptor      # to which it is attached, or None

    cdef int attach(self) except -1
    cdef int leave(self) except -1
    cdef int call_with(self, int came) except -1


cdef class Descriptor(Watched):
    cdef Calls calls
    cdef int fd
    cdef list watchers              # the active ones
    cdef int wanted                 # what any has watched it for
    cdef Py_ssize_t attached        # watchers that have been active and are not closed

    cdef bint is_registered(self) noexcept
    cdef int register(self) except -1
    cdef int forget(self) except -1
    cdef int look(self, int bits) except -1
    cdef int tell(self, int bits) except -1
