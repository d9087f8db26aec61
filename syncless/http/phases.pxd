from libc.stdint cimport uint8_t

cdef enum Phase:
    GREETING        # the bytes before HTTP: see greeting.pyx
    READING         # a request head, or nothing yet
    QUEUED          # a request waits until fewer run
    RUNNING         # a request is being answered
    LINGERING       # refused or closed by us; bytes that the client still sends are thrown away
    CLOSED
    PHASES

cdef extern from *:
    """
    #ifdef NDEBUG
    #define SYNCLESS_CHECKED 0
    #else
    #define SYNCLESS_CHECKED 1
    #endif
    """
    bint CHECKED "SYNCLESS_CHECKED"

cdef int check_move(uint8_t old, uint8_t new) except -1

cdef inline int move_phase(uint8_t* phase, uint8_t new) except -1:
    """The only writer of a phase. In a debug build AssertionError where the table says no."""
    if CHECKED:
        check_move(phase[0], new)
    phase[0] = new
    return 0
