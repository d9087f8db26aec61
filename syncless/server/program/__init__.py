"""A server as a program of its own: the process that serves or the several that do, signals, what it says."""
