"""The rules of HTTP/1.1, in C, and for Cython and Python."""
