"""Turns: how a hub, its greenlets and our scheduler give the thread to each other.

Takes a hub, which runs in a tasklet of its own, the *host*, and greenlets that begin or wait in it. Each
greenlet that gevent begins is a tasklet. Knows nothing of what is due (_calls.pyx).

Fact: the hub switches to the greenlet in which gevent was called, without asking our scheduler. Danger: that
greenlet would go on in the host's turn, and whatever it waits for would stop the hub. Decision: a greenlet
that finds that it was switched to by a running tasklet takes the turn over: the host becomes the first of the
ready queue, and its carrier is `base`, from where it goes back to the hub. A greenlet that waits in gevent
again switches straight to the hub, which is one switch each, as with gevent's own loop. Price: none until a
greenlet waits elsewhere, then one switch more. Guarded by tests/contrib/test_gevent.py.

Fact: gevent relies on it that a greenlet has run when its hub's switch to it returns; a queue then looks
whether it has more values. It has, unless somebody else is first: see the place of the host above. Guarded by
tests/contrib/test_gevent.py::test_values_of_a_queue_wake_as_many_greenlets.

Fact: a greenlet that ends goes on in its parent, which is the hub for gevent's. Danger: the hub may wait, in
the host's turn. Decision: a greenlet runs on a Ground, which is its parent, and does all that gevent asks of
a parent. Grounds are used again, because a program makes a greenlet for each piece of its work.
"""

from cpython.contextvars cimport PyContext_CopyCurrent
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing, raised
from syncless._core.cpython.greenlet cimport (
    PyGreenlet, PyGreenlet_GetCurrent, PyGreenlet_Import, PyGreenlet_Switch,
)
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    DONE, PARKED, READY, RUNNING, WOKEN, BaseTasklet, Scheduler, goes_on_here, is_exploring, is_poll_due,
    item_at, remove_item, stops_here, take_first,
)
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop
from syncless._core.wait.sync cimport Event

from greenlet import getcurrent, greenlet

from syncless._core.current import sleep
from syncless._core.tasklet import spawn

cdef extern from "Python.h":
    void PyErr_SetObject(object kind, object exception)

PyGreenlet_Import()

cdef object switch_to = greenlet.switch     # gevent's own type has another
cdef const char* IN_GEVENT = "gevent"

cdef enum:
    IDLE_GROUNDS = 100          # kept


def waits_in_gevent(BaseTasklet tasklet not None) -> bool:
    """Return whether the tasklet waits for a hub to switch to it."""
    return tasklet.state == PARKED and tasklet.why == IN_GEVENT


def waits_as(BaseTasklet tasklet not None, one) -> bool:
    """Return whether it does, in this greenlet."""
    return (
        tasklet.state == PARKED and tasklet.why == IN_GEVENT
        and <PyObject*> tasklet.carrier == <PyObject*> one)


def switch(hub):
    """Wait until the hub switches back, with what it brings: Hub.switch()."""
    cdef Turns turns = hub.turns
    cdef Loop loop = get_loop()
    cdef BaseTasklet tasklet = loop.current
    here = getcurrent()
    switch_out = getattr(here, "switch_out", None)
    if switch_out is not None:
        switch_out()
    if tasklet is None or tasklet is turns.host or loop is not turns.loop:
        return switch_to(hub)
    if turns.host.state == DONE:            # it has stayed behind in the process that forked
        turns.begin_host()
    if turns.counted == 0:
        turns.called.set()                  # the hub looks whether anything is left
    return turns.wait(loop, tasklet)


cdef class Turns:
    """Turns(hub)\n--\n\nThose of a hub's thread."""

    def __init__(self):
        self.called = Event()
        self.running = {}
        self.grounds = []
        self.loop = get_loop()

    def begin_with(self, hub) -> None:
        """The hub is to run."""
        self.hub = hub
        self.begin_host()

    def begin_host(self) -> None:
        self.lent = False
        self.host = spawn(self.live)
        self.host.name = "gevent's hub"

    def live(self) -> None:
        """The host: it waits between the hub's rounds. In the child of a fork another one goes on."""
        self.base = self.hub.parent = getcurrent()
        wait = switch_to(self.hub)
        while True:
            if self.lent:
                self.lent = False
                self.goes_on(self.host)
            elif self.hub.dead:
                break
            else:
                wait()
            wait = switch_to(self.hub)

    # -- waiting ---------------------------------------------------------------------------------------------

    cdef object wait(self, Loop loop, BaseTasklet tasklet):
        """Park the running tasklet in the present greenlet until the hub switches to that."""
        cdef PyObject* returned
        cdef PyGreenlet* target = NULL
        cdef BaseTasklet now
        cdef bint brought = False, raises
        cdef object value = None, error = None, result
        if Py_IsFinalizing():
            loop.park(IN_GEVENT, self.hub, NEVER)
            return None
        if tasklet.pending is not None and not tasklet.shielded:
            loop.raise_pending(tasklet)
        tasklet.state = PARKED
        tasklet.outcome = WOKEN
        tasklet.why = IN_GEVENT
        tasklet.waiting_on = self.hub
        tasklet.since = loop.clock.now if tasklet.recorder is None else monotonic_ns()
        loop.parked_count += 1
        while True:
            tasklet.carrier = PyGreenlet_GetCurrent()
            stops_here(loop, tasklet)
            returned = self.leave(tasklet) if target == NULL else PyGreenlet_Switch(target, NULL, NULL)
            raises = returned == NULL
            result = None if raises else <object> returned
            if not raises:
                Py_DECREF(result)
            target = tasklet.carrier
            tasklet.carrier = NULL
            Py_DECREF(<object> target)          # which runs, and so has other owners
            target = NULL
            if raises and loop.comes_on_top is not None:    # a handler of a signal
                target = loop._interrupted(tasklet)
                continue
            if raises:
                result = raised()
            now = loop.current
            if now is None or now.state != RUNNING or now is tasklet:   # our scheduler's switch
                if raises:
                    error, brought = result, True                       # the greenlet ends
                break
            if not brought:
                brought = True
                if raises:
                    error = result
                else:
                    value = result
            if now is self.host:
                if tasklet.state == READY:
                    remove_item(&loop.ready, tasklet)
                self.lend()
                break
            if tasklet.state == PARKED:     # another greenlet's switch: it goes on, and we in our turn
                tasklet.state = READY
                tasklet.ready_since = loop.clock.now
                loop.push(tasklet)
                self.woke = True
            target = self.place_of(now)
        loop.parked_count -= 1
        tasklet.why = NULL
        tasklet.waiting_on = None
        self.goes_on(tasklet)
        if tasklet.recorder is not None:
            tasklet.recorder.waited(tasklet, IN_GEVENT, self.hub)
        if tasklet.pending is not None:
            loop.raise_pending(tasklet)
        if error is not None:
            raise error
        return value

    cdef PyObject* leave(self, BaseTasklet tasklet) noexcept:
        """Switch to who comes next: to the hub, if its host does."""
        cdef Loop loop = self.loop
        cdef PyGreenlet* target
        if (self.lent and loop.ready.count and item_at(&loop.ready, 0) == <PyObject*> self.host
                and not is_exploring() and not is_poll_due(&loop.clock)):
            take_first(&loop.ready)
            self.lent = False
            self.goes_on(self.host)
            target = <PyGreenlet*> <PyObject*> self.hub
        else:
            target = loop._next_carrier(tasklet)
            if target == NULL:
                Py_INCREF(())
                return <PyObject*> ()
        return PyGreenlet_Switch(target, NULL, NULL)

    cdef PyGreenlet* place_of(self, BaseTasklet tasklet) noexcept:
        """Return the greenlet in which a tasklet runs that has switched to another one. Borrowed."""
        if isinstance(tasklet, Carried):
            return <PyGreenlet*> <PyObject*> (<Carried> tasklet).greenlet
        return self.loop.carriers.main if tasklet is self.loop.main else <PyGreenlet*> <PyObject*> self.hub

    cdef int lend(self) except -1:
        """The hub has switched to a greenlet, which goes on in the host's place."""
        cdef Loop loop = self.loop
        cdef Tasklet host = self.host
        stops_here(loop, host)
        Py_INCREF(self.base)
        host.carrier = <PyGreenlet*> <PyObject*> self.base
        host.state = READY
        host.ready_since = loop.clock.now
        loop.push_first(host)
        self.lent = self.woke = True
        return 0

    cdef int goes_on(self, BaseTasklet tasklet) except -1:
        cdef PyGreenlet* carrier = tasklet.carrier
        if carrier != NULL:
            tasklet.carrier = NULL
            Py_DECREF(<object> carrier)
        return goes_on_here(self.loop, tasklet)

    # -- turns of others -------------------------------------------------------------------------------------

    cdef int give_turns(self) except -1:
        """In the hub: let those run that the last call has made ready; with gevent they run within it."""
        if self.woke:
            self.woke = False
            if self.loop.ready.count and self.hub is not None:
                switch_to(self.base, sleep)
        return 0

    cdef int rest(self, bint more, bint look) except -1:
        """In the hub: let others run until something is due. `more`: something is. `look`: there must be a
        look for events meanwhile."""
        if self.hub is None:
            sleep() if more else self.called.wait()
        elif not more:
            switch_to(self.base, self.called.wait)
        elif look or self.loop.ready.count or is_exploring() or is_poll_due(&self.loop.clock):
            switch_to(self.base, sleep)
        return 0

    # -- greenlets -------------------------------------------------------------------------------------------

    cdef int begin(self, object one, tuple args, object source) except -1:
        """Let a greenlet begin, as a tasklet. `source`: the watcher or Callback that does so, or None; that
        is pending until the greenlet has begun."""
        cdef Carried made = Carried.__new__(Carried)
        made.turns = self
        made.greenlet = made.function = one
        made.greenlets_args = args
        made.source = source
        made.context = PyContext_CopyCurrent()
        self.woke = True
        self.running[one] = made
        self.loop.adopt(made)
        return self.loop.push(made)

    cdef int over(self, object one) except -1:
        self.running.pop(one, None)
        if not self.running:
            self.called.set()
        return 0

    cdef object ground(self):
        here = getcurrent()
        if self.grounds:
            ground = self.grounds.pop()
            ground.parent = here
            return ground
        return self.hub.Ground(self.hub, self.carry, here)

    def carry(self, carried, args) -> None:
        """The life of a Ground: it carries one greenlet after the other."""
        ground = getcurrent()
        while True:
            carried.parent = ground
            try:
                switch_to(carried, *args)
            except BaseException as error:
                self.hub.handle_error(carried, type(error), error, error.__traceback__)
            carried.parent = self.hub
            carried = args = None
            if self.hub.loop is None or len(self.grounds) >= IDLE_GROUNDS:
                return
            self.grounds.append(ground)
            carried, args = switch_to(ground.parent)

    def end(self) -> None:
        """The hub is destroyed."""
        self.grounds.clear()


cdef class Carried(Tasklet):
    """The tasklet of a greenlet that gevent has begun."""
    cdef Turns turns
    cdef object greenlet
    cdef tuple greenlets_args
    cdef object source

    cdef PyObject* execute(self, Scheduler loop) noexcept:
        """No try block is on the stack while it waits, see scheduler.pyx."""
        cdef PyObject* returned = NULL
        cdef object error = None
        ground = self.prepare()
        if ground is not None:
            args = (self.greenlet, self.greenlets_args)
            self.greenlets_args = None
            returned = PyGreenlet_Switch(
                <PyGreenlet*> <PyObject*> ground, <PyObject*> args, NULL)
            ground = args = None
            if returned == NULL:
                error = raised()
            else:
                Py_DECREF(<object> returned)
        self.conclude(error is None)
        if error is not None:
            PyErr_SetObject(type(error), error)
            return NULL
        Py_INCREF(None)
        return <PyObject*> None

    cdef object prepare(self):
        """Return the Ground for it, or None if it was killed before its first turn."""
        if self.source is not None and not self.source.active:
            return None
        set_hub(self.turns.hub)
        return self.turns.ground()

    cdef int conclude(self, bint ran) except -1:
        if ran and self.source is not None:
            self.source.stop()
        return self.turns.over(self.greenlet)


set_hub = None
"""gevent's function that sets the hub of a thread, which is a tasklet's own under the patch."""
