"""check_signals(): calls the handlers of signals that have come, in the loop itself.

Fact: since 3.14 PyErr_CheckSignals() also runs the script that sys.remote_exec(), and so `pdb -p`, has left
in the thread. Danger: the script waits for its debugger, which the loop itself cannot. Decision: here it is
left to the next tasklet that runs Python code. Guarded by
tests/core/test_loop.py::test_script_of_a_debugger_runs_where_it_may_wait.
"""

cdef extern from *:
    """
    static int syncless_check_signals(void) {
    #if PY_VERSION_HEX >= 0x030E0000
        int32_t *left = &PyThreadState_Get()->remote_debugger_support.debugger_pending_call;
        int32_t script = *left;
        int result;
        *left = 0;
        result = PyErr_CheckSignals();
        if (script)
            *left = script;
        return result;
    #else
        return PyErr_CheckSignals();
    #endif
    }
    """
    int check_signals "syncless_check_signals" () except -1
