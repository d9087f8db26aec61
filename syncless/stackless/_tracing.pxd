"""Trace and profile functions of a tasklet's own. See _tracing.pyx."""

from syncless.stackless._flags cimport FlaggedTasklet


cdef class TracedTasklet(FlaggedTasklet):
    cdef object trace, profile      # while it does not run, those that are its own; else None
