"""The limits that native code reads, by the names of `Limits` in limits.py, which says what each one is.

A dict of the fields of a Limits becomes one by assignment: ``cdef LimitValues values = asdict(limits)``.
"""

from libc.stdint cimport int64_t

cdef struct LimitValues:
    int chunk_line
    int trailer_bytes
    int64_t body_bytes
    Py_ssize_t drain_bytes
    int pipelined
    int connections
    Py_ssize_t client_connections
    int64_t buffered_bytes
    Py_ssize_t linger_bytes
    Py_ssize_t linger_connections
    double body_seconds
    double ping_seconds
    double body_total_seconds
    double body_rate
    double body_grace_seconds
    double request_seconds
    double retry_seconds
    double write_seconds
    double write_rate
    double write_grace_seconds
