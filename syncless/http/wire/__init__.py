"""The rules of HTTP/1.1 in C, with interfaces for Cython and Python."""
