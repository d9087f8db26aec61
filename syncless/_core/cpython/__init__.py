"""Code that depends on internals of CPython or greenlet: the one folder to open for a new Python."""
