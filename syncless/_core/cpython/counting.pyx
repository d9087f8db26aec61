"""Being called by the interpreter from C: before each bytecode, so that the called function can switch; or
once, as soon as Python code goes on, so that it can raise.

Takes a C function. Must not know what is done in it. There are two ways to be called before each bytecode:
sys.monitoring since Python 3.12, for all threads at once; a C trace function before, for one thread (one in
Python could not switch, and would be much slower). Either makes Python code several times slower while it is
on.
"""

import opcode
import sys

from cpython.object cimport PyObject

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

    static Py_tracefunc syncless_trace_function(void) { return PyThreadState_Get()->c_tracefunc; }
    """
    ctypedef struct PyFrameObject
    ctypedef int (*Py_tracefunc)(PyObject*, PyFrameObject*, int, PyObject*) except -1
    PyFrameObject* PyEval_GetFrame()
    void PyEval_SetTrace(Py_tracefunc function, PyObject* object)
    int PyTrace_CALL, PyTrace_LINE, PyTrace_OPCODE
    void syncless_follow_trace()
    Py_tracefunc syncless_trace_function()

cdef bint BY_MONITORING = sys.version_info >= (3, 12)
cdef bint FLAG_PER_GREENLET = sys.version_info < (3, 12)
cdef Each count_one = NULL         # one function for the whole process

cdef set CHECKING = {
    code for name, code in opcode.opmap.items()
    if name in ("RESUME", "JUMP_BACKWARD") or name.startswith(("CALL", "POP_JUMP_BACKWARD"))
}
cdef set JUMPS_BOTH_WAYS = set(opcode.hasjabs)      # before 3.11
cdef int EXTENDED_ARG = opcode.EXTENDED_ARG


cdef int begin_counting(Each each, PyObject* thing, bint first) except -1:
    """each(thing) is called before each bytecode of this thread; by monitoring, each(NULL) in all threads.
    `first`: nothing is counted in this thread yet. There is one such function in the process. Raise
    RuntimeError if a debugger or profiler is in the way."""
    global count_one
    assert count_one == NULL or count_one == each
    count_one = each
    if BY_MONITORING:
        monitor(1)
    elif first:
        if syncless_trace_function() != NULL:
            raise RuntimeError(
                "bytecodes cannot be counted while a trace function is set (a debugger, or coverage)")
        PyEval_SetTrace(on_trace, thing)
    return 0


cdef Once call_once = NULL


cdef bint when_code_goes_on(Once once) except -1:
    """once(NULL) is called before the next line of Python code in this thread; or as an exception reaches
    Python code, and what it raises replaces that one. False if a debugger is in the way."""
    global call_once
    if syncless_trace_function() == NULL:
        call_once = once
        PyEval_SetTrace(on_first_event, NULL)
    return syncless_trace_function() == on_first_event


cdef int on_first_event(PyObject* thing, PyFrameObject* frame, int what, PyObject* argument) except -1:
    PyEval_SetTrace(NULL, NULL)
    return call_once(NULL)


cdef int end_counting(bint last) except -1:
    """The other half of begin_counting(). `last`: nothing more is counted in this thread."""
    if BY_MONITORING:
        monitor(-1)
    elif last:
        PyEval_SetTrace(NULL, NULL)
    return 0


cdef void* counting_function() noexcept:
    """The trace function that belongs to a thread and no tasklet of it; NULL since 3.12."""
    return NULL if BY_MONITORING else <void*> on_trace


cdef void follow_trace() noexcept:
    """A greenlet that goes on is traced if its thread is."""
    syncless_follow_trace()


cdef int on_trace(PyObject* thing, PyFrameObject* frame, int what, PyObject* argument) except -1:
    if what == PyTrace_OPCODE:
        return count_one(thing)
    if what == PyTrace_CALL or what == PyTrace_LINE:        # a line: of a frame that was there before
        if wants is None or is_wanted((<object> <PyObject*> frame).f_code.co_filename):
            (<object> <PyObject*> frame).f_trace_opcodes = True
        else:
            (<object> <PyObject*> frame).f_trace_lines = False
    return 0


cdef object wants = None                    # wants(file name): whether the bytecodes of its code are counted
cdef dict wanted = {}                       # file name -> what it has answered


cdef bint is_wanted(object file) except -1:
    found = wanted.get(file)
    if found is None:
        found = wanted[file] = bool(wants(file))
    return found


def count_only(function) -> None:
    """Count only bytecodes of code from files for which function(file name) is true; None: all."""
    global wants
    wants = function
    wanted.clear()
    if BY_MONITORING:
        sys.monitoring.restart_events()


cdef bint interpreter_checks() except -1:
    """Return whether the bytecode that comes is one at which the interpreter itself lets another thread run:
    a call, a jump back, the beginning of a function. To be asked by a function that is called before it."""
    cdef PyObject* running = <PyObject*> PyEval_GetFrame()
    cdef bytes code
    cdef Py_ssize_t at
    cdef int argument = 0
    if running == NULL:
        return False
    frame = <object> running
    code = frame.f_code.co_code
    at = frame.f_lasti
    while code[at] == EXTENDED_ARG:
        argument = argument << 8 | code[at + 1]
        at += 2
    if code[at] in JUMPS_BOTH_WAYS:
        return (argument << 8 | code[at + 1]) * 2 <= at
    return code[at] in CHECKING or at == 0


def _on_instruction(code, offset):
    if wants is not None and not is_wanted(code.co_filename):
        return sys.monitoring.DISABLE
    count_one(NULL)


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


cdef int prepare_stack(dict known) except -1:
    """Fact: the interpreter prepares code for a new tool when a function is called, and what threads are just
    running. Danger: a tasklet that had stopped before goes on in a loop that is never counted. Decision: its
    functions are made ready here, which a change of their own events does. `known` holds those that are."""
    if not BY_MONITORING:
        return 0
    monitoring = sys.monitoring
    running = PyEval_GetFrame()
    frame = None if running == NULL else <object> <PyObject*> running
    while frame is not None:
        code = frame.f_code
        if id(code) not in known:
            known[id(code)] = code
            monitoring.set_local_events(tool, code, monitoring.events.INSTRUCTION)
            monitoring.set_local_events(tool, code, 0)
        frame = frame.f_back
    return 0
