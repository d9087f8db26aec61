"""The table of contents of dispatcher.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.cpython.threadlocal cimport KeptLocals
from syncless._core.cpython.tracing cimport KeptFunctions
from syncless._core.linked cimport LinkedList, Node
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.tasklet cimport Tasklet
from syncless._core.timers cimport Timer


cdef class Calls


cdef class Handle:
    cdef Calls dispatcher
    cdef object callback            # None once it is cancelled
    cdef tuple args
    cdef object context             # contextvars.Context in which it is called
    cdef Handle after               # the next in the queue
    cdef bint is_cancelled
    cdef object source_traceback    # where it was made, in debug mode
    cdef object __weakref__

    cdef int fill(self, Calls dispatcher, object callback, tuple args, object context) except -1
    cdef PyObject* invoke(self) noexcept
    cdef int tell(self, object error) except -1
    cdef int done(self) except -1


cdef class TimerHandle(Handle):
    cdef Timer timer
    cdef double moment              # s, on the clock of loop.time()
    cdef Node place                 # in the list of timers


cdef class Calls:
    cdef object loop                # asyncio's
    cdef Loop engine                # while it runs
    cdef LinkedList timers
    cdef KeptLocals kept            # of callbacks that are no step of a task; or None
    cdef bint closed
    cdef bint debug

    cdef int append(self, Handle handle) except -1
    cdef int call(self, Handle handle) except -1
    cdef int add_timer(self, TimerHandle handle) except -1
    cdef int set_timer(self, TimerHandle handle) except -1
    cdef int close(self) except -1


cdef class Dispatcher


cdef class Runner(Tasklet):
    cdef Dispatcher dispatcher
    cdef BaseTasklet thread         # the tasklet as which programs see it: Dispatcher.thread
    cdef Handle handle              # the one that it calls
    cdef readonly object task       # the current task while others run in its place
    cdef KeptLocals kept            # whose values in threading.local are lent to it, or None
    cdef KeptFunctions functions    # trace and profile functions that are lent to it, or None
    cdef object site                # the line of the program that waits, if that is to be told
    cdef dict waits                 # site -> task, and seconds for which it has waited there; or None
    cdef int forks                  # of the process, when it was made
    cdef int64_t left               # ns; when it last gave way to others
    cdef int64_t away               # ns for which others have run in its place


cdef class Dispatcher(Calls):
    cdef BaseTasklet host           # the tasklet that waits for the end of the run
    cdef BaseTasklet thread         # as which programs see callbacks: the same, or the OS thread's main
    cdef Handle first               # callbacks that are due, in the order of their coming
    cdef Handle last
    cdef Py_ssize_t count
    cdef Py_ssize_t batch           # how many of them were due when this round began, and have not run
    cdef Runner runner              # the tasklet that calls the next callback, or is going to
    cdef Runner spare
    cdef object first_hook          # for asynchronous generators: when one begins, and
    cdef object last_hook           # when one goes that has not ended
    cdef object task_factory        # of the program, or None
    cdef object failure             # the exception that ended the run, or None
    cdef int forks                  # of the process, when the run began
    cdef bint stopping
    cdef bint blocks                # a callback that waits holds up the others
    cdef bint warns                 # of each line that waits, once
    cdef set told                   # those lines

    cdef int call_next(self) except -1
    cdef int run_round(self, Runner me) except -1
    cdef int trace_as_host(self) except -1
    cdef int call_and_watch(self, Runner me, Handle handle) except -1
    cdef int tell_of(self, Runner me) except -1
    cdef int failed(self, Handle handle, object error) except -1
    cdef int end_child(self, Handle handle) except -1
    cdef int enter(self, object task) except -1
    cdef int leave(self) except -1
    cdef int begin_run(self, Loop engine) except -1
    cdef int wait_for_end(self) except -1
    cdef int end_run(self, object failure) except -1
    cdef int forked(self) except -1
    cdef int stop(self) except -1


cdef KeptLocals lend_locals(Calls dispatcher, object task)
cdef int take_locals_back(Calls dispatcher, object task, KeptLocals lent) except -1
cdef KeptFunctions lend_functions(object task)
cdef int take_functions_back(object task, KeptFunctions lent) except -1
cdef int keep_for(object task, KeptLocals kept) except -1
