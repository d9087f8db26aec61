"""What debuggers, profilers and asyncio set for a thread, per tasklet. See tracing.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t, uintptr_t

from syncless._core.cpython.compat cimport PyThreadState

cdef extern from *:
    """
    #ifndef SYNCLESS_SETTINGS
    #define SYNCLESS_SETTINGS
    #define SYNCLESS_UNKNOWN UINT64_MAX
    typedef struct {                    /* of a tasklet that does not run; references are owned */
        Py_tracefunc trace, profile;
        PyObject *trace_object, *profile_object;
        PyObject *first, *last;         /* hooks of asynchronous generators */
        int tracing, what;              /* it stopped inside a trace function or a tool of sys.monitoring */
        int origin_depth;               /* of coroutines, as asyncio's debug mode has it */
        PyObject *lazy_imports;         /* the set of those that it resolves, or NULL */
    } syncless_settings;

    static inline int syncless_resolves(PyThreadState *state, Py_ssize_t at) {
        PyObject *those = *(PyObject **)((char *)state + at);
        return those != NULL && PySet_GET_SIZE(those) != 0;
    }

    static inline int syncless_has_hooks(PyThreadState *state) {
        return ((uintptr_t)state->c_tracefunc | (uintptr_t)state->c_profilefunc
                | (uintptr_t)state->async_gen_firstiter | (uintptr_t)state->async_gen_finalizer
                | (unsigned)state->tracing | (unsigned)state->coroutine_origin_tracking_depth) != 0;
    }

    static inline int syncless_is_traced(PyThreadState *state) {
        return ((uintptr_t)state->c_tracefunc | (uintptr_t)state->c_profilefunc) != 0;
    }

    /* `tracing` counts the calls of trace functions. Ours are beside it: the interpreter sees only that it
       is not 0: a call of a function of the patch in the place of one in C (replacing.pyx), and a thread of
       ours (end_call()). */
    #define SYNCLESS_PAUSED (1 << 10)
    #define SYNCLESS_HIDDEN (1 << 20)

    static inline int syncless_in_tracer(PyThreadState *state) {
        return (state->tracing & (SYNCLESS_PAUSED - 1)) != 0;
    }

    /* Whether anything is told of the code that this thread runs. */
    static inline int syncless_is_watched(PyThreadState *state) {
    #if PY_VERSION_HEX >= 0x030D0000
        if (state->eval_breaker >> 8)   /* the version of what tools of sys.monitoring ask for; 0: none */
            return 1;
    #endif
        return syncless_is_traced(state);
    }

    /* Tools of sys.monitoring see nothing of the thread, until it is shown. */
    static inline void syncless_hide_thread(int hidden) {
    #if PY_VERSION_HEX >= 0x030C0000
        PyThreadState_Get()->tracing = hidden ? SYNCLESS_HIDDEN : 0;
    #endif
    }

    static inline int syncless_hidden_here(void) { return PyThreadState_Get()->tracing >= SYNCLESS_HIDDEN; }
    static inline int syncless_traced_here(void) { return syncless_is_traced(PyThreadState_Get()); }
    static inline int syncless_in_tracer_here(void) { return syncless_in_tracer(PyThreadState_Get()); }
    #endif
    """
    ctypedef struct Settings "syncless_settings":
        pass
    # whether it has any but lazy imports
    bint has_hooks "syncless_has_hooks" (PyThreadState* state) noexcept
    # whether it resolves a lazy import
    bint resolves "syncless_resolves" (PyThreadState* state, Py_ssize_t at) noexcept
    # whether it has trace or profile functions
    bint is_traced "syncless_is_traced" (PyThreadState* state) noexcept
    # the same, or of a tool of sys.monitoring
    bint is_watched "syncless_is_watched" (PyThreadState* state) noexcept
    # whether a trace function, or a tool of sys.monitoring, has called the function of the patch that asks
    bint in_tracer "syncless_in_tracer" (PyThreadState* state) noexcept
    # all for the thread that asks
    bint hidden_here "syncless_hidden_here" () noexcept
    bint traced_here "syncless_traced_here" () noexcept
    bint in_tracer_here "syncless_in_tracer_here" () noexcept
    void hide_thread "syncless_hide_thread" (bint hidden) noexcept
    uint64_t UNKNOWN_HOOKS "SYNCLESS_UNKNOWN"
    PyThreadState* PyThreadState_Get()

cdef Py_ssize_t lazy_imports_at     # in a thread's state; 0: this Python has none

cdef inline bint has_settings(PyThreadState* state) noexcept:
    """Return whether the thread of that state has something of all that."""
    return has_hooks(state) or lazy_imports_at != 0 and resolves(state, lazy_imports_at)

cdef int put_aside(Settings** held) except -1
cdef void put_back(Settings** held) noexcept
cdef void drop_settings(Settings** held) noexcept
cdef void free_settings(Settings** held) noexcept
cdef object settings_of(Settings* held, bint profile)
cdef int change_settings(Settings** held, bint profile, object function) except -1

# the names of the module threading; `hooks_known` is another number than their dict_version() if a new
# tasklet may begin with something
cdef dict names_of_threading
cdef uint64_t hooks_known
cdef int begin_settings(bint bare, uint64_t version) except -1


# -- of an owner that is no tasklet --------------------------------------------------------------------------

cdef Py_ssize_t kept_functions      # how many KeptFunctions there are


cdef class KeptFunctions:
    """Trace and profile functions that their owner has while it does not run; while it does, those in whose
    place they are."""
    cdef Settings* held

    cdef int exchange(self) except -1
    cdef bint is_empty(self) noexcept

cdef int begin_with(Settings* others) except -1
cdef PyObject* functions_now() noexcept
