"""Code that depends on internals of CPython or greenlet: the only folder to change for a new Python
version."""
