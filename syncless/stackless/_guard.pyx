"""Guard: a tasklet's function is called so that none of its exceptions reaches run().

Takes the function and the handler of its exceptions. Must not know how a tasklet runs. Programs for
carbonengine/scheduler use it; Stackless has only set_error_handler(), which is for all tasklets.
"""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.threadloop cimport get_loop


cdef class Guard:
    """The attributes dont_raise, exception_handler and context_manager_getter of one tasklet."""

    def __call__(self, BaseTasklet one, function, tuple args, dict kwargs):
        """Calls the function of a tasklet, inside the context manager that is made for the tasklet. An
        exception of the context manager is raised."""
        if self.context_manager_getter is None:
            return self.call_caught(one, function, args, kwargs)
        with self.context_manager_getter(one):
            return self.call_caught(one, function, args, kwargs)

    cdef object call_caught(self, BaseTasklet one, object function, tuple args, dict kwargs):
        cdef Loop loop = get_loop()
        if kwargs is None:
            kwargs = {}
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if self.exception_handler is None:
                loop.report(one, error)
                return None
            try:
                self.exception_handler(f"Unhandled exception in {one!r}")
            except Exception as raised:         # its context is the first one
                loop.report(self.exception_handler, raised)
            return None
