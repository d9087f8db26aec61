# cython: language_level=3
"""fibonacci(rounds) modulo 2**32, without the interpreter's lock."""

from libc.stdint cimport uint32_t


def fibonacci(unsigned long rounds):
    cdef uint32_t a = 0, b = 1
    cdef unsigned long i
    with nogil:
        for i in range(rounds):
            a, b = b, a + b
    return a
