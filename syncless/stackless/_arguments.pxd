"""TypeErrors worded as functions of C word them: programs and tests for Stackless compare the text.

Cython words those of functions with optional arguments in its own way, so such a function takes further ones
itself and refuses them here. For functions without, `binding=False` has CPython itself look at the arguments.
"""


cdef inline int at_most(str function, Py_ssize_t most, tuple excess) except -1:
    if excess:
        raise TypeError(
            f"{function}() takes at most {most} argument{'s' * (most != 1)} ({most + len(excess)} given)")
    return 0


cdef inline int required(str function, str name) except -1:
    """The first one was not given."""
    raise TypeError(f"{function}() missing required argument '{name}' (pos 1)")
