"""Exceptions of Stackless programs. See _bomb.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet


cdef class bomb:
    cdef public object type, value, traceback


cdef object exception_of(object kind, object value, object traceback)
cdef int tell_uncaught(Loop loop, BaseTasklet one, BaseException exception) except -1
