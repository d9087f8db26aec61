"""Carriers: the greenlets on which tasklets run, and the two from which they are started.

New carriers are started by *starters*, greenlets that do nothing else and stay at the depths at which they
began, because a greenlet begins at the C stack position of its starter. There are two, by turns: a switch
from a carrier of the first to one of the second, which lies below, copies nothing out.
"""

cdef enum:
    # bytes of stack between the two starters: more than most carriers have when they switch, and no whole
    # pages
    FURTHER_DOWN = 6000


cdef class _Greenlet:
    """The body of a greenlet of the engine."""
    cdef object argument
    cdef Step step
    cdef Step failed
    cdef PyGreenlet* carrier            # owned until it runs; then it has other owners

    def __call__(self):
        Py_XDECREF(<PyObject*> self.carrier)
        at_base(self.step, self.failed, <PyObject*> self.argument)


cdef class Carriers:
    """A pool of greenlets that all do the same steps for a loop: it gives the one that leads next, an
    idle one or a new one."""

    def __dealloc__(self):
        PyMem_Free(self.idle)

    cdef int begin(self, object loop, Step step, Step step_failed) except -1:
        """In the thread's own greenlet."""
        cdef _Greenlet starter = _Greenlet()
        cdef int i
        self.loop = loop
        self.step, self.step_failed = step, step_failed
        starter.argument = self
        starter.step, starter.failed = <Step> start_carriers, <Step> starter_failed
        self.main = PyGreenlet_GetCurrent()
        for i in range(2):
            self.starters[i] = PyGreenlet_New(<PyObject*> starter, self.main)
            switch_further_down(self.starters[i], i * FURTHER_DOWN)
        return 0

    cdef PyGreenlet* next_leader(self) noexcept:
        """Return an idle carrier, or a starter, which starts one when it is switched to. Borrowed, see
        go_idle()."""
        if self.idle_count:
            self.idle_count -= 1
            return self.idle[self.idle_count]
        return self.starters[self.count & 1]

    cdef int go_idle(self, PyGreenlet* target) except -1:
        """The running carrier goes into the idle list and the target goes on. Returns when it leads again;
        raises GreenletExit if it is to end. The list's reference is dropped by the carrier itself: one that
        is kept on the other side of a switch would chain idle carriers to one another."""
        cdef PyGreenlet* me
        if self.idle_count == self.idle_capacity:
            self.idle = <PyGreenlet**> doubled(self.idle, &self.idle_capacity, sizeof(PyGreenlet*), 64)
        me = PyGreenlet_GetCurrent()
        self.idle[self.idle_count] = me
        self.idle_count += 1
        switch(target)
        Py_DECREF(<object> me)
        return 0

    cdef int end_one(self) except -1:
        """An idle carrier ends: GreenletExit is raised in it when its last reference is dropped."""
        self.idle_count -= 1
        Py_DECREF(<object> self.idle[self.idle_count])
        return 0

    cdef int end(self) except -1:
        """Starters and idle carriers end."""
        cdef int i
        for i in range(2):
            Py_DECREF(<object> self.starters[i])
        while self.idle_count:
            self.end_one()
        Py_DECREF(<object> self.main)
        self.loop = None
        return 0


cdef int failed() except -1:
    """Hand on the exception that is set."""
    return -1


cdef int refuse_wait(Scheduler self, const char* why) except -1:
    if self.still is not None:
        raise RuntimeError(
            f"a step that must not wait would wait for {why.decode()}: let it spawn a tasklet instead")
    raise RuntimeError(
        "the event loop itself cannot wait: a signal handler or callback called something that blocks; let "
        "it spawn a tasklet instead")


cdef int switch(PyGreenlet* target) except -1:
    cdef PyObject* returned = PyGreenlet_Switch(target, NULL, NULL)
    if returned == NULL:
        return failed()
    Py_DECREF(<object> returned)
    return 0


cdef int start_carriers(Carriers carriers) except -1:
    """The body of a starter: each switch to it starts one carrier, at the starter's own depth."""
    cdef _Greenlet carrier
    switch(carriers.main)                   # which has started it, to give it its depth
    while True:
        carrier = _Greenlet()
        carrier.argument = carriers.loop
        carrier.step, carrier.failed = carriers.step, carriers.step_failed
        carrier.carrier = PyGreenlet_New(<PyObject*> carrier, carriers.main)
        carriers.count += 1
        switch(carrier.carrier)             # raises GreenletExit when the loop ends


cdef int starter_failed(Carriers _) except -1:
    return failed()
