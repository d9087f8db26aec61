# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""Flags of a tasklet, its context, and what Stackless's programs ask of its C stack."""

from syncless._core.scheduler cimport DONE, NEW, RUNNING
from syncless._core.tasklet cimport Tasklet


cdef class FlaggedTasklet(Tasklet):
    """The base class of Stackless's tasklets: flags, and a context of their own."""

    def __cinit__(self, *args, **kwargs):
        self.ignore_nesting = False

    cdef int flags(self) noexcept:
        """As a number, for pickling."""
        return self.atomic | self.ignore_nesting << 1 | self.block_trap << 2

    cdef int set_flags(self, int flags) except -1:
        self.atomic, self.ignore_nesting, self.block_trap = flags & 1, flags >> 1 & 1, flags >> 2 & 1
        return 0

    def set_atomic(self, flag):
        """A section in which it must not be preempted. Returns the flag's last value."""
        if not isinstance(flag, int):
            raise TypeError("set_atomic needs exactly one bool or integer")
        before, self.atomic = self.atomic, bool(flag)
        return before

    def set_ignore_nesting(self, flag):
        if not isinstance(flag, int):
            raise TypeError("set_ignore_nesting needs exactly one bool or integer")
        before, self.ignore_nesting = self.ignore_nesting, bool(flag)
        return before

    @property
    def context_id(self):
        return id(self.context)

    def set_context(self, context):
        """The contextvars.Context in which it will run. RuntimeError if it runs already. Returns the
        tasklet."""
        if self.state not in (NEW, DONE):
            raise RuntimeError("the context of a tasklet that has started cannot be changed")
        self.context = context
        return self

    def context_run(self, function, /, *args, **kwargs):
        """function(*args, **kwargs) in its context."""
        if self.state == RUNNING or self.context is None:
            return function(*args, **kwargs)
        return self.context.run(function, *args, **kwargs)

    @property
    def restorable(self):
        """It can be pickled: it has not started, or has ended."""
        return self.carrier == NULL and self.state in (NEW, DONE)

    @property
    def recursion_depth(self):
        """1 of one that has started, or 0."""
        return int(self.state not in (NEW, DONE))

    @property
    def nesting_level(self):
        """1 of one that has started and does not run now, because it has its frames on a C stack, or 0."""
        return int(self.carrier != NULL)
