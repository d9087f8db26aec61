"""The done callbacks of a tasklet or an event: a list, or None while there are none."""


cdef inline list with_callback(list callbacks, object callback):
    """The list with one more at its end."""
    if callbacks is None:
        return [callback]
    callbacks.append(callback)
    return callbacks


cdef inline Py_ssize_t drop_callback(list callbacks, object callback) except -1:
    """Takes a callback out, as often as it is there; returns how often that was."""
    cdef Py_ssize_t before
    if callbacks is None:
        return 0
    before = len(callbacks)
    callbacks[:] = [other for other in callbacks if other != callback]
    return before - len(callbacks)
