"""Trace and profile functions of a tasklet's own. See _tracing.pyx."""

from syncless.stackless._state cimport StatefulTasklet


cdef class TracedTasklet(StatefulTasklet):
    cdef object trace, profile      # while it does not run, those that are its own; else None
