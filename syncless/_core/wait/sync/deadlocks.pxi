"""Waits: which tasklet holds a lock, and the circles of tasklets that wait for each other, for debug.py."""


cdef class Waits:
    """The present waits of the live tasklets of all threads. One waits for another if that holds its lock,
    or if it joins it."""
    cdef list tasklets
    cdef dict by_number         # by the last 32 bits of the serial number
    cdef dict by_ident          # by the ident that _thread.RLock notes as its owner
    cdef dict threads           # ident -> threading.Thread

    def __init__(self):
        cdef BaseTasklet tasklet
        cdef Loop loop
        self.tasklets = []
        self.by_number = {}
        self.by_ident = {}
        # threading.enumerate() takes a lock, for which the loop cannot wait
        self.threads = dict(threading._active)
        for loop in list(loops.values()):
            for tasklet in loop.tasklets():
                self.tasklets.append(tasklet)
                self.by_number[<uint32_t> tasklet.serial] = tasklet
                self.by_ident[ident_of(tasklet)] = tasklet

    def label(self, BaseTasklet tasklet not None) -> str:
        """Return the tasklet's name, with that of the threading.Thread that it is under the patch."""
        thread = self.threads.get(<uintptr_t> <PyObject*> tasklet)
        return tasklet.name if thread is None else f"{tasklet.name}, thread {thread.name}"

    def holder(self, thing):
        """Return the live tasklet that holds a lock, be it Lock, or the interpreter's Lock or RLock under the
        patch; or None."""
        if isinstance(thing, Lock):
            return self.by_number.get(<uint32_t> (<Lock> thing).holder) if (<Lock> thing).value == 0 else None
        if is_lock(thing):
            return self.by_number.get(holder_of_lock(thing))
        if is_rlock(thing):
            return self.by_ident.get(owner_of_rlock(thing))
        return None

    def owner(self, ident):
        """Return the live tasklet of this number, that of threading.get_ident() under the patch; or None."""
        return self.by_ident.get(ident)

    cdef BaseTasklet awaited_by(self, BaseTasklet tasklet):
        """Return the tasklet that must do something before this one can go on; None if its wait has a limit,
        or another could end it."""
        on = tasklet.waiting_on
        if tasklet.state != PARKED or tasklet.timer.index >= 0 or on is None:
            return None
        if isinstance(on, Tasklet):
            return on
        holder = self.holder(on)
        # threading's way to wait: a tasklet takes the lock that it holds again, and another releases it
        return None if holder is tasklet and is_lock(on) else holder

    def endless(self) -> set:
        """Return the tasklets that wait without limit."""
        cdef BaseTasklet tasklet
        return {
            tasklet for tasklet in self.tasklets if tasklet.state == PARKED and tasklet.timer.index < 0
        }

    def wakers(self) -> list:
        """Return the owners of timers and the watchers of descriptors, which the loops will call."""
        cdef Loop loop
        cdef Py_ssize_t i
        found = []
        for loop in list(loops.values()):
            found += loop.fds.watchers()
            for i in range(loop.timers.count):
                found.append(<object> loop.timers.heap[i].owner)
        return found

    def circles(self) -> list:
        """Lists of tasklets, each of which waits for the next one, and the last one for the first."""
        cdef BaseTasklet first, tasklet
        found = []
        seen = {}               # tasklet -> the first of the walk in which it was met
        for first in self.tasklets:
            tasklet = first
            walk = []
            while tasklet is not None and tasklet not in seen:
                seen[tasklet] = first
                walk.append(tasklet)
                tasklet = self.awaited_by(tasklet)
            if tasklet is not None and seen[tasklet] is first:
                found.append(walk[walk.index(tasklet):])
        return found


def may_be_circles(Loop loop not None) -> bool:
    """Return whether a tasklet of this loop waits, without limit, for a lock or for the end of another.
    Quick."""
    cdef Node* one = loop.live.first
    cdef BaseTasklet tasklet
    while one != NULL:
        tasklet = <BaseTasklet> one.owner
        on = tasklet.waiting_on
        if on is not None and tasklet.state == PARKED and tasklet.timer.index < 0 and (
                isinstance(on, Tasklet) or isinstance(on, Lock) or is_lock(on) or is_rlock(on)):
            return True
        one = one.after
    return False
