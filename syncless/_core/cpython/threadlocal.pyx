"""threading.local per tasklet.

Fact: the interpreter finds the values of threading.local through fields of the OS thread's state. Danger:
tasklets that stand for threads share them. Decision: the fields are exchanged when such a tasklet runs, so
that every local, old or new, is per tasklet, and as fast as the interpreter's own. Price: a few exchanged
pointers per switch. Guarded by tests/patches/test_locals.py.

Each tasklet that has values of its own holds either them, while it does not run, or those of the thread,
while it does. A task of asyncio, which runs in several tasklets one after the other, has KeptLocals.

Applications written for a pool of threads keep a database connection in each. Fact: a request is a new
tasklet. Danger: it would find no connection, and open its own. Decision: tasklets that stand for a pool's
threads (requests of a server, their synchronous endpoints) take numbered slots of the pool, the lowest free
one first, and leave their values there for the next tasklet. Price: as with threads, a value of one request
is there in another. Guarded by tests/server/test_slots.py.
"""

from cpython.contextvars cimport get_value
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t
from libc.string cimport memset

from contextvars import ContextVar

cdef extern from *:
    """
    static inline void syncless_exchange(PyObject **field, PyObject **held) {
        PyObject *value = *field;
        *field = *held;
        *held = value;
    }
    static void syncless_exchange_locals(PyObject **held) {
        PyThreadState *state = PyThreadState_Get();
        syncless_exchange(&state->dict, &held[0]);
    #if PY_VERSION_HEX >= 0x030D0000
        syncless_exchange(&state->threading_local_key, &held[1]);
        syncless_exchange(&state->threading_local_sentinel, &held[2]);
    #endif
    }
    static int syncless_locals_used(void) {
        PyThreadState *state = PyThreadState_Get();
    #if PY_VERSION_HEX >= 0x030D0000
        return state->threading_local_key != NULL;
    #else
        return state->dict != NULL && PyDict_GET_SIZE(state->dict) > 1;
    #endif
    }
    """
    int __builtin_ctzll(unsigned long long word) nogil
    bint syncless_locals_used() noexcept
    void syncless_exchange_locals(PyObject** held)

cdef bint separate = False
cdef Py_ssize_t kept_count = 0


def separate_thread_locals(bint on) -> None:
    """Whether tasklets that start from now on have values of their own in threading.local, as threads
    have."""
    global separate
    separate = on


cdef void start_locals(Locals* locals) noexcept:
    """A tasklet starts, which is to have values of its own."""
    cdef Slots slots
    if locals.slots != NULL:
        slots = <Slots> locals.slots
        slots.take(locals)
    locals.own = True
    syncless_exchange_locals(locals.held)


cdef void exchange_locals(Locals* locals) noexcept:
    """A tasklet that has values of its own stops, or goes on."""
    syncless_exchange_locals(locals.held)


cdef void end_locals(Locals* locals) noexcept:
    """A tasklet that has values of its own has ended: drops them."""
    cdef Slots slots
    syncless_exchange_locals(locals.held)
    locals.own = False
    if locals.slot != NULL and locals.slots != NULL:
        slots = <Slots> locals.slots
        slots.leave(<Slot> locals.slot, locals)
    else:
        drop_locals(locals)


cdef void drop_own(Locals* locals) noexcept:
    """The running tasklet drops its own values, unless it leaves them to the next one in its slot."""
    cdef Locals own
    if locals.own and locals.slot == NULL:
        memset(&own, 0, sizeof(Locals))
        syncless_exchange_locals(own.held)
        drop_locals(&own)


cdef void drop_locals(Locals* locals) noexcept:
    cdef PyObject* value
    cdef int number
    for number in range(3):
        value = locals.held[number]
        locals.held[number] = NULL
        Py_XDECREF(value)


# -- slots ---------------------------------------------------------------------------------------------------

# The Slots of the pool for whose threads tasklets stand here. In a context, so that the threads that an
# application asks for, such as asyncio.to_thread(), have those of its server.
cdef object here = ContextVar("syncless.slots", default=None)


cdef class Slot:
    """The values that tasklets leave to one another."""


cdef class Slots:
    """Slots(when_kept): of one pool. when_kept() is called when there is something to do for
    end_idle_slots(), and not again until that has ended all."""

    def __init__(self, when_kept):
        self.kept = {}
        self.when_kept = when_kept

    cdef void take(self, Locals* locals) noexcept:
        """The lowest free one. Making it may run finalisers, and so any code: the number is taken first."""
        cdef int number
        cdef Slot slot
        while self.lowest < WORDS and self.taken[self.lowest] == <uint64_t> -1:
            self.lowest += 1
        if self.lowest == WORDS:
            return
        number = 64 * self.lowest + __builtin_ctzll(~self.taken[self.lowest])
        self.taken[self.lowest] |= <uint64_t> 1 << (number & 63)
        slot = self.kept.get(number)
        if slot is None:
            slot = self.kept[number] = Slot()
            slot.number = number
        locals.held[0] = owned(slot.values)
        locals.held[1] = owned(slot.key)
        locals.held[2] = owned(slot.sentinel)
        slot.values = slot.key = slot.sentinel = None
        locals.slot = <PyObject*> slot

    cdef void leave(self, Slot slot, Locals* locals) noexcept:
        locals.slot = NULL
        slot.values = given(locals.held[0])
        slot.key = given(locals.held[1])
        slot.sentinel = given(locals.held[2])
        locals.held[0] = locals.held[1] = locals.held[2] = NULL
        slot.round = self.round
        self.taken[slot.number >> 6] &= ~(<uint64_t> 1 << (slot.number & 63))
        self.lowest = min(self.lowest, slot.number >> 6)
        if not self.tended:
            self.tended = True
            self.when_kept()


cdef Slots slots_here():
    """Return those of the present context, or None."""
    return <Slots> get_value(here)


def use_slots(slots) -> None:
    """From now on these are the Slots of the present context; None: tasklets take none."""
    here.set(slots)


cdef Slot slot_of(Locals* locals):
    """Return the slot of a tasklet that has one now, or None."""
    return None if locals.slot == NULL else <Slot> locals.slot


cdef int end_slot(Slot slot, Locals* locals) except -1:
    """In a tasklet whose own values are `locals`: as a thread ends, which has its number until then."""
    cdef PyObject* before = locals.slot
    locals.slot = <PyObject*> slot
    try:
        slot.values = slot.key = slot.sentinel = None
        for function in slot.at_end or ():
            function()
    finally:
        locals.slot = before
    return 0


cdef bint end_idle_slots(Slots slots, int rounds, Locals* locals) except -1:
    """Begin a round, and end the free slots that no tasklet has had for so many. Return whether there are
    others that this is to be called for again. After 0 rounds these are taken: when_kept() is called when
    they are given back."""
    cdef Slot slot
    slots.round += 1
    for number in sorted(slots.kept, reverse=True):
        slot = slots.kept.get(number)
        if slot is not None and slots.round - slot.round > rounds and not (
                slots.taken[slot.number >> 6] >> (slot.number & 63)) & 1:
            del slots.kept[number]
            end_slot(slot, locals)
    slots.tended = rounds and bool(slots.kept)
    return slots.tended


# -- values whose owner is no tasklet ------------------------------------------------------------------------


cdef class KeptLocals:
    """See threadlocal.pxd. The collector of cyclic garbage sees what it holds."""

    def __cinit__(self):
        global kept_count
        kept_count += 1

    def __dealloc__(self):
        global kept_count
        kept_count -= 1


cdef bint locals_used() noexcept:
    """Return whether the running tasklet, which has values of its own, has set any. One entry up to Python
    3.12 is asyncio's note of the running loop, which the caller must have made."""
    return syncless_locals_used()


cdef KeptLocals keep_locals():
    """Return the values of the running tasklet, which has none from now on."""
    cdef KeptLocals kept = KeptLocals()
    exchange_kept(kept)
    return kept


cdef int exchange_kept(KeptLocals kept) except -1:
    """Its owner begins to run, or stops."""
    cdef PyObject* held[3]
    held[0] = owned(kept.values)
    held[1] = owned(kept.key)
    held[2] = owned(kept.sentinel)
    syncless_exchange_locals(held)
    kept.values = given(held[0])
    kept.key = given(held[1])
    kept.sentinel = given(held[2])
    return 0


cdef inline PyObject* owned(object value) noexcept:
    if value is None:
        return NULL
    Py_INCREF(value)
    return <PyObject*> value


cdef inline object given(PyObject* value):
    if value == NULL:
        return None
    made = <object> value
    Py_XDECREF(value)
    return made
