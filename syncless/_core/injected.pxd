"""Functions that the engine calls and must not import. See injected.pyx."""

cdef object new_main            # called with a new Loop
cdef object main_type
cdef object new_tasklet
cdef object look_up
cdef dict case_makers
