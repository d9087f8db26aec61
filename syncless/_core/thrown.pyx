"""Thrown: an exception on its way to a tasklet, which its thrower may take back before it is raised.

Two throwers may share an exception, but not a Thrown. See scheduler.pxd for its use by a tasklet.
"""


cdef class Thrown:
    pass
