"""Trace and profile functions of a tasklet's own. See _tracing.pyx."""

from syncless._core.tasklet cimport Tasklet


cdef class TracedTasklet(Tasklet):
    cdef object trace, profile      # while it does not run, those that are its own; else None
