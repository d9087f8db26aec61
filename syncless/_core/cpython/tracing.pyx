"""Trace and profile functions, hooks of asynchronous generators and the depth of coroutine origins, per
tasklet.

Fact: the interpreter keeps them in the OS thread's state, and greenlet does not exchange them. Danger: what
coverage, a debugger or a profiler has set for one request sees all others, and is lost when another sets or
removes its own. Decision: a tasklet that stops takes what is set along, so the loop itself runs without, and
gets it back when it goes on. A new tasklet begins as a thread does: with what threading.settrace() and
setprofile() say. Coverage and debuggers use these, because they want all threads; pdb does not, because it
follows one. Price: at a switch and at the end of a tasklet one comparison, if nothing is set. Guarded by
tests/core/test_tracing.py.

Fact: while the interpreter calls a trace function, or a tool of sys.monitoring, it traces nothing else in the
thread. Danger: a request that stands at a breakpoint, and waits there, would hide those of all others.
Decision: that mark belongs to the tasklet, too.

Fact: before 3.12 the bytecodes of all tasklets of a thread are counted by a trace function (counting.pyx).
Decision: that one stays when tasklets are exchanged; a tasklet's own waits until it is gone.

Fact: since 3.15 a thread knows which lazy imports it resolves; a further use of such a name is a circular
import. Danger: a request that uses a name while another imports its module would raise ImportCycleError.
Decision: that set belongs to the tasklet, too. Guarded by
tests/patches/test_tracing.py::test_threads_use_a_lazy_import_together.
"""

import builtins
import gc
import sys
import threading
import types

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from syncless._core.cpython.counting cimport counting_function

cdef extern from *:
    """
    #include <stdlib.h>

    #if PY_VERSION_HEX >= 0x030C0000
    #define syncless_what what_event
    #elif PY_VERSION_HEX >= 0x030B0000
    #define syncless_what tracing_what
    #endif

    /* Before 3.12 a flag on the C stack says whether anything is traced. */
    static void syncless_renew_flag(PyThreadState *state) {
    #if PY_VERSION_HEX < 0x030C0000
        int traced = !state->tracing && (state->c_tracefunc || state->c_profilefunc);
        state->cframe->use_tracing = traced ? 255 : 0;
    #endif
    }

    #define SYNCLESS_SWAP(type, a, b) do { type swapped = (a); (a) = (b); (b) = swapped; } while (0)

    static Py_ssize_t syncless_lazy_imports_at;

    static void syncless_exchange_others(PyThreadState *state, syncless_settings *held) {
        SYNCLESS_SWAP(Py_tracefunc, state->c_profilefunc, held->profile);
        SYNCLESS_SWAP(PyObject *, state->c_profileobj, held->profile_object);
        SYNCLESS_SWAP(PyObject *, state->async_gen_firstiter, held->first);
        SYNCLESS_SWAP(PyObject *, state->async_gen_finalizer, held->last);
        SYNCLESS_SWAP(int, state->tracing, held->tracing);
    #ifdef syncless_what
        SYNCLESS_SWAP(int, state->syncless_what, held->what);
    #endif
        SYNCLESS_SWAP(int, state->coroutine_origin_tracking_depth, held->origin_depth);
        if (syncless_lazy_imports_at)
            SYNCLESS_SWAP(
                PyObject *, *(PyObject **)((char *)state + syncless_lazy_imports_at), held->lazy_imports);
    }

    static void syncless_free_settings(syncless_settings *held) {
        Py_XDECREF(held->lazy_imports);
        free(held);
    }

    static void syncless_exchange_functions(syncless_settings *held) {
        PyThreadState *state = PyThreadState_Get();
        SYNCLESS_SWAP(Py_tracefunc, state->c_tracefunc, held->trace);
        SYNCLESS_SWAP(PyObject *, state->c_traceobj, held->trace_object);
        SYNCLESS_SWAP(Py_tracefunc, state->c_profilefunc, held->profile);
        SYNCLESS_SWAP(PyObject *, state->c_profileobj, held->profile_object);
        syncless_renew_flag(state);
    }

    static int syncless_has_functions(syncless_settings *held) { return held->trace || held->profile; }

    static void syncless_begin_with(syncless_settings *others, int trace, int profile) {
        if (trace && others->trace)
            PyEval_SetTrace(others->trace, others->trace_object);
        if (profile && others->profile)
            PyEval_SetProfile(others->profile, others->profile_object);
    }

    /* A number for the pair that is set now. */
    static PyObject *syncless_functions_now(void) {
        PyThreadState *state = PyThreadState_Get();
        return (PyObject *)((uintptr_t)state->c_traceobj ^ (uintptr_t)state->c_profileobj << 1);
    }

    static Py_tracefunc syncless_trace_now(int profile) {
        PyThreadState *state = PyThreadState_Get();
        return profile ? state->c_profilefunc : state->c_tracefunc;
    }
    static PyObject *syncless_object_now(int profile) {
        PyThreadState *state = PyThreadState_Get();
        return profile ? state->c_profileobj : state->c_traceobj;
    }
    static void syncless_set_in_c(int profile, void *function, PyObject *object) {
        (profile ? PyEval_SetProfile : PyEval_SetTrace)((Py_tracefunc)function, object);
    }

    /* Exchanges the thread's and those that are held. */
    static void syncless_exchange_settings(syncless_settings *held) {
        PyThreadState *state = PyThreadState_Get();
        SYNCLESS_SWAP(Py_tracefunc, state->c_tracefunc, held->trace);
        SYNCLESS_SWAP(PyObject *, state->c_traceobj, held->trace_object);
        syncless_exchange_others(state, held);
        syncless_renew_flag(state);
    }

    /* The thread's are held from now on, but a trace function that is `stays`. */
    static void syncless_settings_aside(syncless_settings *held, void *stays) {
        PyThreadState *state = PyThreadState_Get();
        PyObject *before = NULL;
        if (state->c_tracefunc && (void *)state->c_tracefunc != stays) {
            before = held->trace_object;        /* it has waited for the end of that one, and is replaced */
            held->trace = state->c_tracefunc;
            held->trace_object = state->c_traceobj;
            state->c_tracefunc = NULL;
            state->c_traceobj = NULL;
        }
        syncless_exchange_others(state, held);
        syncless_renew_flag(state);
        Py_XDECREF(before);
    }

    static void syncless_settings_back(syncless_settings *held, void *stays) {
        PyThreadState *state = PyThreadState_Get();
        if (held->trace && (state->c_tracefunc == NULL || (void *)state->c_tracefunc != stays)) {
            SYNCLESS_SWAP(Py_tracefunc, state->c_tracefunc, held->trace);
            SYNCLESS_SWAP(PyObject *, state->c_traceobj, held->trace_object);
        }
        syncless_exchange_others(state, held);
        syncless_renew_flag(state);
    }

    static syncless_settings *syncless_new_settings(void) {
        syncless_settings *made = calloc(1, sizeof *made);
    #if PY_VERSION_HEX >= 0x030C0000
        if (made)
            made->what = -1;                    /* no event */
    #endif
        return made;
    }

    static PyObject *syncless_held_function(syncless_settings *held, int profile) {
        return profile ? held->profile_object : held->trace_object;
    }

    /* All of the thread's go, as they do with an OS thread, but not a trace function that is `stays`. */
    static void syncless_end_settings(void *stays) {
        PyThreadState *state = PyThreadState_Get();
        state->tracing = 0;
        if (state->c_tracefunc && (void *)state->c_tracefunc != stays)
            PyEval_SetTrace(NULL, NULL);
        if (state->c_profilefunc)
            PyEval_SetProfile(NULL, NULL);
        Py_CLEAR(state->async_gen_firstiter);
        Py_CLEAR(state->async_gen_finalizer);
        state->coroutine_origin_tracking_depth = 0;
    }
    """
    Settings* new_settings "syncless_new_settings" () noexcept
    void exchange "syncless_exchange_settings" (Settings* held) noexcept
    void _put_aside "syncless_settings_aside" (Settings* held, void* stays) noexcept
    void _put_back "syncless_settings_back" (Settings* held, void* stays) noexcept
    PyObject* held_function "syncless_held_function" (Settings* held, bint profile) noexcept
    void end_settings "syncless_end_settings" (void* stays) noexcept
    void _free_settings "syncless_free_settings" (Settings* held) noexcept
    Py_ssize_t syncless_lazy_imports_at
    void exchange_functions "syncless_exchange_functions" (Settings* held) noexcept
    bint has_functions "syncless_has_functions" (Settings* held) noexcept
    void _begin_with "syncless_begin_with" (Settings* others, bint trace, bint profile) noexcept
    PyObject* _functions_now "syncless_functions_now" () noexcept
    void* function_now "syncless_trace_now" (bint profile) noexcept
    PyObject* object_now "syncless_object_now" (bint profile) noexcept
    void set_in_c "syncless_set_in_c" (bint profile, void* function, PyObject* object) noexcept

cdef dict names_of_threading = threading.__dict__
cdef uint64_t hooks_known = UNKNOWN_HOOKS
# the interpreter's own, whatever is put in their place later
cdef object set_trace = sys.settrace, set_profile = sys.setprofile


cdef enum:
    STATE_MOST = 2048       # bytes of a thread's state that are looked at


def _find_lazy_imports() -> int:
    """Return where a thread's state has the set of lazy imports that it resolves, by resolving one; 0 if
    there is none."""
    cdef char* state = <char*> PyThreadState_Get()
    lazy, found = [], []

    def look(*_args):
        sets = [id(it) for it in gc.get_referrers(*lazy) if type(it) is set]
        found.extend(
            at for at in range(sizeof(void*), STATE_MOST, sizeof(void*))
            if (<size_t*> (state + <Py_ssize_t> at))[0] in sets)
        return sys

    if not hasattr(types, "LazyImportType"):
        return 0
    names = {"__builtins__": vars(builtins) | {"__import__": look}}
    exec("lazy import sys", names)
    if type(names["sys"]) is types.LazyImportType:
        lazy.append(names["sys"])
        lazy[0].resolve()
    return found[0] if len(found) == 1 else 0


cdef Py_ssize_t lazy_imports_at = _find_lazy_imports()
syncless_lazy_imports_at = lazy_imports_at


cdef int put_aside(Settings** held) except -1:
    """A tasklet stops. The settings of its thread become the tasklet's."""
    make(held)
    _put_aside(held[0], counting_function())
    return 0


cdef void put_back(Settings** held) noexcept:
    """A tasklet goes on, which has put something aside."""
    _put_back(held[0], counting_function())


cdef int make(Settings** held) except -1:
    if held[0] == NULL:
        held[0] = new_settings()
        if held[0] == NULL:
            raise MemoryError
    return 0


cdef void drop_settings(Settings** held) noexcept:
    """The running tasklet has ended: nothing is set from now on. May run finalisers, and so any code."""
    if hooks_known == UNKNOWN_HOOKS:
        of_trace.keep(False)
        of_profile.keep(True)
    end_settings(counting_function())
    free_settings(held)


cdef void free_settings(Settings** held) noexcept:
    """Of a tasklet that will not go on, or has ended."""
    cdef Settings* own = held[0]
    if own != NULL:
        held[0] = NULL
        exchange(own)
        end_settings(NULL)
        exchange(own)
        _free_settings(own)


cdef object settings_of(Settings* held, bint profile):
    """Return the trace or profile function of a tasklet that does not run, or None."""
    cdef PyObject* found = NULL if held == NULL else held_function(held, profile)
    return None if found == NULL else <object> found


cdef int change_settings(Settings** held, bint profile, object function) except -1:
    """As sys.settrace() or setprofile(), in a tasklet that does not run."""
    make(held)
    exchange(held[0])
    try:
        (set_profile if profile else set_trace)(function)
    finally:
        exchange(held[0])
    return 0


cdef object monitoring = getattr(sys, "monitoring", None)


def report_waiting(frame) -> None:
    """Report this frame, in which a tasklet waits, and the frames below it to the current trace function.

    Fact: since Python 3.12 the interpreter changes code to trace it: the code of running frames when the
    function is set, and other code at its next call. Danger: a frame in which a tasklet waits is neither, so
    its lines are not reported. Decision: a free monitoring tool changes the events of this code, and changes
    them back; if no tool is free, the frame stays as it is. Guarded by
    tests/stackless/test_tracing.py::test_trace_function_can_be_set_while_the_tasklet_waits.
    """
    if monitoring is None:
        return
    for tool in range(monitoring.OPTIMIZER_ID, -1, -1):
        if monitoring.get_tool(tool) is None:
            break
    else:
        return
    monitoring.use_tool_id(tool, "syncless")
    try:
        while frame is not None:
            for events in (monitoring.events.PY_START, 0):
                monitoring.set_local_events(tool, frame.f_code, events)
            frame = frame.f_back
    finally:
        monitoring.free_tool_id(tool)


cdef enum:
    SPARE_TRACERS = 64

# the packages whose tracers may go on in another thread
cdef frozenset WITH_TRACERS = frozenset(("coverage", "viztracer", "_lsprof"))


cdef bint may_go_on(object tracer):
    for base in type(tracer).__mro__:
        if base.__module__.partition(".")[0] in WITH_TRACERS:
            return True
    return False


cdef class Hook:
    """The function that threading.settrace() or setprofile() has set.

    Fact: coverage and VizTracer make, in each thread that begins, a tracer in C, and keep all of them until
    they end. Danger: a server makes as many as it has requests. Decision: a tracer whose tasklet has ended
    goes to the next that begins, as it would in a pool of threads; but not that of another tool: a debugger's
    knows its thread. Guarded by tests/core/test_tracing.py::test_tracers_in_c_go_from_tasklet_to_tasklet.
    """
    cdef object function            # or None
    cdef void* by_python            # the C function that calls a function in Python
    cdef void* in_c                 # the one of the spare tracers
    cdef list spare

    cdef int begin(self, object function, bint profile) except -1:
        if function is not self.function:
            self.function, self.spare = function, []
        if function is None:
            return 0
        if self.spare:
            tracer = self.spare.pop()
            set_in_c(profile, self.in_c, <PyObject*> tracer)
            return 0
        (set_profile if profile else set_trace)(function)
        self.by_python = function_now(profile)
        return 0

    cdef int keep(self, bint profile) noexcept:
        """The running tasklet ends."""
        cdef void* function = function_now(profile)
        cdef PyObject* given = object_now(profile)
        if self.function is None or function == NULL or function == self.by_python or (
                function == counting_function()) or given == NULL:
            return 0
        if not may_go_on(<object> given):
            return 0
        if function != self.in_c:
            self.in_c, self.spare = function, []
        if len(self.spare) < SPARE_TRACERS:
            self.spare.append(<object> given)
        return 0


cdef Hook of_trace = Hook(), of_profile = Hook()


cdef int begin_settings(bint bare, uint64_t version) except -1:
    """A tasklet begins: sets what threading's functions say. A `bare` one does so by itself, as a
    threading.Thread. `version`: of the names of threading, or UNKNOWN_HOOKS."""
    global hooks_known
    trace, profile = names_of_threading.get("_trace_hook"), names_of_threading.get("_profile_hook")
    if trace is not None or profile is not None:
        hooks_known = UNKNOWN_HOOKS
        if bare:
            return 0
    elif version != UNKNOWN_HOOKS:
        hooks_known = version
    of_trace.begin(trace, False)
    of_profile.begin(profile, True)
    return 0


def begin_call() -> None:
    """Begin a call in a pool's OS thread, with the settings of a new thread."""
    hide_thread(False)
    begin_settings(False, UNKNOWN_HOOKS)


def end_call() -> None:
    """Clear the settings of this OS thread, and hide it from tools of sys.monitoring."""
    cdef Settings* nothing = NULL
    drop_settings(&nothing)
    hide_thread(True)


# -- of an owner that is no tasklet --------------------------------------------------------------------------

cdef Py_ssize_t kept_functions = 0


cdef class KeptFunctions:
    def __cinit__(self):
        global kept_functions
        make(&self.held)
        kept_functions += 1

    def __dealloc__(self):
        global kept_functions
        kept_functions -= 1
        free_settings(&self.held)

    cdef int exchange(self) except -1:
        """Its owner begins to run, or stops."""
        exchange_functions(self.held)
        return 0

    cdef bint is_empty(self) noexcept:
        return not has_functions(self.held)


cdef int begin_with(Settings* others) except -1:
    """A callback begins with the functions of the tasklet that runs its loop, which waits; but if a tool
    follows all threads, with what that has for a new one, as begin_settings() has set it."""
    _begin_with(
        others,
        names_of_threading.get("_trace_hook") is None,
        names_of_threading.get("_profile_hook") is None)
    return 0


cdef PyObject* functions_now() noexcept:
    """Another number if a trace or profile function is set, or removed."""
    return _functions_now()
