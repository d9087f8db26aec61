"""Tracer: the runs and waits of all tasklets of a thread, while somebody looks.

It is an observer: told when a tasklet goes on, which then still says what it has waited for, and when one
stops. Its spans are C structs in one array. tools/tracing.py makes a file of them.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc

from cpython.ref cimport Py_XDECREF

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop
from syncless._core.recorder cimport KeptWait, as_wait, look
from syncless._core.scheduler cimport PARKED, READY, BaseTasklet, Observer
from syncless._core.threadloop cimport get_loop

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()

cdef const char* RUNS = "running"
cdef const char* QUEUES = "ready"


cdef struct Span:
    uint64_t tasklet        # its serial number
    KeptWait wait           # whose `why` may be RUNS or QUEUES


cdef class Tracer(Observer):
    """Tracer(most): start() and stop() in the thread whose tasklets it follows; it keeps `most` spans."""
    cdef Span* spans
    cdef Py_ssize_t count, room, most
    cdef readonly Py_ssize_t dropped
    cdef readonly dict names        # of tasklets, by their serial numbers
    cdef Loop loop
    cdef uint64_t running           # the serial number of the tasklet that runs; 0: none
    cdef int64_t began              # it goes on, ns
    cdef int64_t started            # ns

    def __init__(self, Py_ssize_t most=1_000_000):
        self.most = most
        self.names = {}

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            Py_XDECREF(self.spans[i].wait.code)
        free(self.spans)

    cdef KeptWait* add(self, BaseTasklet tasklet, const char* why, int64_t since, int64_t until) noexcept:
        """NULL if there is no room."""
        cdef Span* more
        cdef KeptWait* wait
        since = max(since, self.started)
        if until < since or (until == since and why == QUEUES):
            return NULL
        if self.count == self.room:
            more = NULL
            if self.room < self.most:
                more = <Span*> realloc(self.spans, min(max(1024, self.room * 2), self.most) * sizeof(Span))
            if more == NULL:
                self.dropped += 1
                return NULL
            self.spans = more
            self.room = min(max(1024, self.room * 2), self.most)
        self.spans[self.count].tasklet = tasklet.serial
        wait = &self.spans[self.count].wait
        self.count += 1
        wait.why = why
        wait.since = since
        wait.ns = until - since
        wait.code = NULL
        wait.on[0] = 0
        return wait

    cdef int name(self, BaseTasklet tasklet) except -1:
        cdef bint collects
        if tasklet.serial not in self.names:
            collects = PyGC_Disable()       # no finaliser may wait here
            try:
                self.names[tasklet.serial] = tasklet.name
            finally:
                if collects:
                    PyGC_Enable()
        return 0

    cdef int begins(self, object one) except -1:
        cdef BaseTasklet tasklet = <BaseTasklet> one
        cdef int64_t now
        cdef KeptWait* wait
        if self.running == tasklet.serial:
            return 0                        # it gave way, and nobody else was ready
        now = monotonic_ns()
        self.name(tasklet)
        if tasklet.why != NULL:
            wait = self.add(tasklet, tasklet.why, tasklet.since, min(now, tasklet.ready_since))
            if wait != NULL:
                look(wait, tasklet.waiting_on)
        if tasklet.switches > 1 and tasklet.ready_since >= self.started:    # not that of its last life
            self.add(tasklet, QUEUES, max(tasklet.since, tasklet.ready_since), now)
        self.running = tasklet.serial
        self.began = now
        return 0

    cdef int stops(self, object one) except -1:
        cdef BaseTasklet tasklet = <BaseTasklet> one
        cdef int64_t now = monotonic_ns()
        if self.running == tasklet.serial:
            self.add(tasklet, RUNS, self.began, now)
        self.running = 0
        if tasklet.state == PARKED:         # more exact than the loop's clock
            tasklet.since = now
        elif tasklet.state == READY:
            tasklet.ready_since = now
        return 0

    def start(self) -> None:
        """In this thread, from now on."""
        self.loop = get_loop()
        self.started = self.began = monotonic_ns()
        if self.loop.current is not None:
            self.running = self.loop.current.serial
            self.name(self.loop.current)
        self.loop.observe(self)

    def stop(self) -> None:
        """The waits that go on are spans, too."""
        cdef BaseTasklet tasklet
        cdef int64_t now = monotonic_ns()
        self.loop.unobserve(self)
        if self.loop.current is not None and self.running == self.loop.current.serial:
            self.add(self.loop.current, RUNS, self.began, now)
        for tasklet in self.loop.tasklets():
            if tasklet.state == PARKED and tasklet.why != NULL:
                self.name(tasklet)
                self.add(tasklet, tasklet.why, tasklet.since, now)
        self.loop = None

    def found(self) -> list:
        """(serial number of the tasklet, Wait) in the order of their ends; the `why` of a run is "running",
        that of time in the ready queue "ready"."""
        cdef Py_ssize_t i
        return [(self.spans[i].tasklet, as_wait(&self.spans[i].wait)) for i in range(self.count)]
