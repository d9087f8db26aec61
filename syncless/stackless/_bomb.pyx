# cython: binding=False, always_allow_keywords=False, embedsignature=True, embedsignature.format=clinic
"""Stackless Python's exceptions: those that pass between tasklets, and those that no tasklet has caught."""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless.stackless._thread cimport Thread, threads, throw_first

cdef object error_handler = None


cdef class bomb:
    """bomb(type=None, value=None, traceback=None)\n--\n\n\
    An exception as a value: a tasklet that receives it from a channel raises it."""

    def __init__(self, type=None, value=None, traceback=None):
        self.type, self.value, self.traceback = type, value, traceback

    def _raise(self):
        raise exception_of(self.type, self.value, self.traceback)


cdef object exception_of(object kind, object value, object traceback):
    """The instance that `raise kind, value, traceback` raised."""
    if isinstance(kind, BaseException):
        if value is not None:
            raise TypeError("instance exception may not have a separate value")
        made = kind
    elif isinstance(kind, type) and issubclass(kind, BaseException):
        if isinstance(value, kind):
            made = value
        elif value is None:
            made = kind()
        else:
            made = kind(*value) if isinstance(value, tuple) else kind(value)
    else:
        raise TypeError(f"exceptions must be classes, or instances, not {type(kind).__name__}")
    return made if traceback is None else made.with_traceback(traceback)


cdef int tell_uncaught(Loop loop, BaseTasklet one, BaseException exception) except -1:
    """An exception left a tasklet: it is raised in the innermost run(), or in the main tasklet."""
    cdef Thread state = threads.get(loop.thread_id)
    cdef BaseTasklet target
    if error_handler is not None:
        before, loop.current = loop.current, one    # it is still the current one for the handler,
        if state is not None:
            state.switch_trap += 1                  # but has no stack any more that could be left
        try:
            error_handler(type(exception), exception, exception.__traceback__)
            return 0
        except BaseException as error:
            exception = error
        finally:
            loop.current = before
            if state is not None:
                state.switch_trap -= 1
    target = loop.main
    if state is not None and len(state.runners) > 1:
        target = <BaseTasklet> state.runners[len(state.runners) - 1]
    throw_first(loop, target, exception)
    return 0


def set_error_handler(handler):
    """handler(type, value, traceback) of exceptions that no tasklet has caught; None: they are raised in
    run(). Returns the last one."""
    global error_handler
    if handler is not None and not callable(handler):
        raise TypeError("error handler must be callable")
    before, error_handler = error_handler, handler
    return before
