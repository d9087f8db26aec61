"""The exceptions that a tasklet is going to raise, in the order in which they were thrown.

They are kept in one field: None, an exception, or a list of several, so that the common case of one needs no list. The functions here give
that field's next value. When they are raised is told in scheduler.pyx: one at each wait.
"""


cdef class Thrown:
    """An exception that its thrower may take back before it is raised. Two throwers may share an exception, but not a Thrown."""


cdef object added(object pending, object thrown):
    """With one more, an exception or a Thrown."""
    if pending is None:
        return thrown
    return [*all_of(pending), thrown]


cdef object added_first(object pending, object thrown):
    """With one more that is raised before all others."""
    if pending is None:
        return thrown
    return [thrown, *all_of(pending)]


cdef object without(object pending, object thrown):
    """Without that one; as it was if it has been raised."""
    return shortest([other for other in all_of(pending) if other is not thrown])


cdef object without_first(object pending):
    return shortest(all_of(pending)[1:])


cdef object first_of(object pending):
    """The exception that is raised next. There is one."""
    cdef Thrown thrown
    first = (<list> pending)[0] if type(pending) is list else pending
    if type(first) is not Thrown:
        return first
    thrown = <Thrown> first
    exception, thrown.exception = thrown.exception, None        # or it and a Timeout would refer to each other
    return exception


cdef list all_of(object pending):
    return <list> pending if type(pending) is list else [] if pending is None else [pending]


cdef object shortest(list several):
    return None if not several else several[0] if len(several) == 1 else several
