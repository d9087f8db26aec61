"""Carriers: a pool of greenlets that all do the same steps for a loop.

Takes the step. Gives the greenlet that leads next, an idle one or a new one. It must not know what a step
does; scheduler.pyx, which does, says why there are starters.
"""

from cpython.mem cimport PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_XDECREF

from syncless._core.arrays cimport doubled
from syncless._core.cpython.greenlet cimport (
    PyGreenlet, PyGreenlet_GetCurrent, PyGreenlet_Import, PyGreenlet_New, PyGreenlet_Switch, Step, at_base,
    switch_further_down,
)

cdef enum:
    # bytes of stack between the two starters: more than most carriers have when they switch, and no whole
    # pages
    FURTHER_DOWN = 6000

PyGreenlet_Import()


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
        """An idle carrier, or a starter, which starts one when it is switched to. Borrowed, see go_idle()."""
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
    """Hands on the exception that is set."""
    return -1


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
