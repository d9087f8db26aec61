"""Thrown: an exception on its way to a tasklet, which its thrower may take back before it is raised.

Two throwers may share an exception, but not a Thrown. What a tasklet does with it is in scheduler.pxd.
"""


cdef class Thrown:
    pass
