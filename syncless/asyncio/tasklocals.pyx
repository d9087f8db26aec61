"""Values in threading.local that belong to a task, under the patch.

Fact: the steps of a task are made in several tasklets, and tasklets have values of their own. Danger: at an
await a task would lose its database connection; and if all tasks shared one, two that wait in the midst of a
query would use the same. Decision: each task has values of its own, from its first step to its end. They are
taken from the tasklet that makes a step as soon as there are any, and lent to the one that makes the next.
Price: a look for each step which tells that there are none. Guarded by
tests/patches/test_task_locals.py.
"""

from asyncio import events

from syncless._core.cpython.threadlocal cimport KeptLocals, exchange_kept, keep_locals
from syncless.asyncio.handles cimport Calls

from syncless.tools.runningloop import note_of_running_loop

cdef str PLACE = "_syncless_locals"     # a task's attribute: it lives as long as the task
cdef object note_running = note_of_running_loop(events)


cdef KeptLocals lend_locals(Calls rounds, object task):
    """A callback is called: its values, if it has any, are in place until take_locals_back(). `task` is the
    one of which it is a step, or None: such callbacks hand theirs on, but not while one of them waits."""
    cdef KeptLocals kept = rounds.kept if task is None else getattr(task, PLACE, None)
    if kept is None or kept.lent:
        return None
    kept.lent = True
    exchange_kept(kept)
    return kept


cdef int take_locals_back(Calls rounds, object task, KeptLocals lent) except -1:
    """The callback has returned and has values, lent or new. They go if its task is done, which may run code
    of the program, and park."""
    if lent is None:
        lent = keep_locals()
    else:
        exchange_kept(lent)
        lent.lent = False
    note_running(rounds.loop)           # asyncio remembers where it is, and these values may go
    if task is not None:
        keep_for(task, lent)
    elif rounds.kept is None and not rounds.closed:
        rounds.kept = lent
    return 0


cdef int keep_for(object task, KeptLocals kept) except -1:
    """The task has these values while no step of it is made."""
    setattr(task, PLACE, None if task.done() else kept)
    return 0
