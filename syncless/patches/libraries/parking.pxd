"""The table of interposers. See parking.pyx, and interpose.h for the interposers themselves."""

cdef extern from "interpose.h":
    ctypedef struct interposer:
        const char* name        # of libc's function
        void* function
        void* original

cdef const interposer* find_interposer(const char* name) noexcept
