"""BytecodeLimit: how many bytecodes a tasklet runs in one turn, counted exactly.

Two ways to be called for each bytecode: sys.monitoring since Python 3.12, a C trace function before (one in
Python could not switch, and would be much slower). Either makes Python code several times slower while a
limit is on.
"""

import sys

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop, get_loop, peek_loop
from syncless._core.scheduler cimport RUNNING, BaseTasklet

cdef extern from *:
    """
    #include <frameobject.h>

    /* Before 3.12 each greenlet has a flag of its own that says whether it is traced. */
    static void syncless_follow_trace(void) {
    #if PY_VERSION_HEX < 0x030C0000
        PyThreadState *state = PyThreadState_Get();
        state->cframe->use_tracing = state->c_tracefunc != NULL || state->c_profilefunc != NULL ? 255 : 0;
    #endif
    }

    static Py_tracefunc syncless_trace_function(PyObject **object) {
        PyThreadState *state = PyThreadState_Get();
        *object = state->c_traceobj;
        return state->c_tracefunc;
    }
    """
    ctypedef struct PyFrameObject
    ctypedef int (*Py_tracefunc)(PyObject*, PyFrameObject*, int, PyObject*) except -1
    PyFrameObject* PyEval_GetFrame()
    void PyEval_SetTrace(Py_tracefunc function, PyObject* object)
    int PyTrace_CALL, PyTrace_LINE, PyTrace_OPCODE
    void follow_trace "syncless_follow_trace" ()
    Py_tracefunc trace_function "syncless_trace_function" (PyObject** object)


cdef int64_t NEVER_AGAIN = 1 << 62          # in this turn


cdef int one_more(Loop loop) except -1:
    """A bytecode is going to be run in this thread."""
    cdef BytecodeLimit each
    if loop is None or loop.limits is None or loop.current is None or loop.current.state != RUNNING:
        return 0
    for item in <list> loop.limits:
        each = <BytecodeLimit> item
        each.left -= 1
        if each.left < 0:
            each.exceeded(loop.current)
            break                           # the list may be another one
    return 0


cdef int on_trace(PyObject* loop, PyFrameObject* frame, int what, PyObject* argument) except -1:
    if what == PyTrace_OPCODE:
        return one_more(<Loop> loop)
    if what == PyTrace_CALL or what == PyTrace_LINE:        # a line: of a frame that was there before
        (<object> <PyObject*> frame).f_trace_opcodes = True
    return 0


def _on_instruction(code, offset):
    one_more(peek_loop())


cdef int tool = -1                          # in sys.monitoring
cdef Py_ssize_t monitored = 0               # limits that are on


cdef int monitor(int step) except -1:
    """Since Python 3.12, for all threads: on with the first limit, off with the last."""
    global tool, monitored
    monitoring = sys.monitoring
    monitored += step
    if monitored == 1 and step > 0:
        free = [number for number in (4, 3, 1, 2, 0) if monitoring.get_tool(number) is None]
        if not free:
            monitored = 0
            raise RuntimeError("bytecodes cannot be counted: all tools of sys.monitoring are in use")
        tool = free[0]
        monitoring.use_tool_id(tool, "syncless")
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, _on_instruction)
        monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    elif monitored == 0:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)
    return 0


cdef int instrument_stack(dict known) except -1:
    """Fact: the interpreter prepares code for a new tool when a function is called, and what threads are just
    running. Danger: a tasklet that had stopped before goes on in a loop that is never counted. Decision: its
    functions are made ready here, which a change of their own events does. `known` holds those that are."""
    monitoring = sys.monitoring
    frame = <object> <PyObject*> PyEval_GetFrame() if PyEval_GetFrame() != NULL else None
    while frame is not None:
        code = frame.f_code
        if id(code) not in known:
            known[id(code)] = code
            monitoring.set_local_events(tool, code, monitoring.events.INSTRUCTION)
            monitoring.set_local_events(tool, code, 0)
        frame = frame.f_back
    return 0


cdef bint BY_MONITORING = sys.version_info >= (3, 12)


cdef class _Follower(Observer):
    """Stays for good: a tasklet that stopped while a limit was on, or before, goes on with or without being
    traced as it is now."""

    cdef int begins(self, object tasklet) except -1:
        follow_trace()
        return 0


cdef class BytecodeLimit(Observer):
    """exceeded() is called when a tasklet of this thread has run more than `limit` bytecodes in one turn;
    with `in_all`, when all have."""

    def __init__(self, int64_t limit, bint in_all=False):
        if limit < 1:
            raise ValueError(f"a limit of {limit} bytecodes leaves nothing to run")
        self.limit = self.left = limit
        self.in_all = in_all
        self.known = {}

    cdef int exceeded(self, BaseTasklet tasklet) except -1:
        """Called before each further bytecode, until it sets `left` anew or the turn ends."""
        return 0

    cdef int begins(self, object tasklet) except -1:
        if not self.in_all:
            self.left = self.limit
        if BY_MONITORING:
            instrument_stack(self.known)
        return 0

    def start(self) -> None:
        """Counts in this thread from now on."""
        cdef Loop loop = get_loop()
        cdef Py_tracefunc function
        cdef PyObject* argument = NULL
        if self.loop is not None:
            raise RuntimeError("this limit is on already")
        if BY_MONITORING:
            monitor(1)
        elif loop.limits is None:
            function = trace_function(&argument)
            if function != NULL:
                raise RuntimeError("bytecodes cannot be counted while a trace function is set (a debugger, or coverage)")
            PyEval_SetTrace(on_trace, <PyObject*> loop)
            if not any([isinstance(each, _Follower) for each in loop.observers.observers] if loop.observers is not None else ()):
                loop.observe(_Follower())
        self.loop = loop
        self.left = self.limit
        self.known.clear()
        loop.limits = [self, *(loop.limits or ())]
        loop.observe(self)

    def stop(self) -> None:
        """No more; harmless if it is not on."""
        cdef Loop loop = self.loop
        if loop is None:
            return
        self.loop = None
        loop.limits = [other for other in loop.limits if other is not self] or None
        loop.unobserve(self)
        if BY_MONITORING:
            monitor(-1)
        elif loop.limits is None:
            PyEval_SetTrace(NULL, NULL)


cdef class TurnLimit(BytecodeLimit):
    """report(tasklet) is called, once for each turn that has more bytecodes."""
    cdef object report

    def __init__(self, limit, report):
        BytecodeLimit.__init__(self, limit)
        self.report = report

    cdef int exceeded(self, BaseTasklet tasklet) except -1:
        self.left = NEVER_AGAIN
        self.report(tasklet)
        return 0
