"""One thread of a Stackless program. See _thread.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Observer, Scheduler
from syncless._core.threadloop cimport get_loop

cdef const char* PAUSED
cdef const char* IN_CHANNEL
cdef const char* IN_RUN


cdef class Thread:
    cdef Loop loop
    # first the tasklet whose run() has a timeout, or None; then those that are in run(), the innermost last
    cdef list runners
    cdef Py_ssize_t blocked             # tasklets that wait for channels, in run(), or paused
    cdef BaseTasklet last_stopped       # by pause(); None if another one has ended since
    cdef int switch_trap
    cdef int awaits_threads             # how many run(threadblock=True) there are
    cdef BaseTasklet interrupted        # by run(timeout), for which it is kept
    cdef Observer teller                # calls the schedule callback


cdef dict threads
cdef Thread latest
cdef Thread found()


cdef inline Thread here():
    """This thread's, made at the first call."""
    cdef Thread state = latest
    return state if state is not None and state.loop is get_loop() else found()


cdef list run_queue(Loop loop)
cdef int refuse_switch(Thread state) except -1


cdef inline BaseTasklet running(Thread state):
    """The running tasklet, if it may switch; RuntimeError else."""
    if state.switch_trap or state.loop.current is None:
        refuse_switch(state)
    return state.loop.current


cdef int leave(Thread state, BaseTasklet me, bint stays) except -1
cdef int pause(Thread state, BaseTasklet me, const char* why, object on) except -1
cdef int run_now(Thread state, BaseTasklet target, bint stays) except -1
cdef int end_run(Thread state, BaseTasklet runner) except -1
cdef int forget_last_stopped(Scheduler loop) except -1
cdef int leave_run(Thread state, BaseTasklet runner) except -1
cdef object number_of_thread(object thread_id)
cdef int throw_first(Loop loop, BaseTasklet target, BaseException exception) except -1
cdef bint other_threads(Loop loop) except -1


cdef class bomb:
    cdef public object type, value, traceback


cdef object exception_of(object kind, object value, object traceback)
cdef int tell_uncaught(Loop loop, BaseTasklet one, BaseException exception) except -1


cdef class Guard:
    cdef bint dont_raise
    cdef object exception_handler
    cdef object context_manager_getter

    cdef object call_caught(self, BaseTasklet one, object function, tuple args, dict kwargs)
