"""The table of hooks. See parking.pyx, and hooks.h for the hooks themselves."""

cdef extern from "hooks.h":
    ctypedef struct hook_row:
        const char* name        # of libc's function
        void* hook
        void* original

cdef const hook_row* find_hook(const char* name) noexcept
