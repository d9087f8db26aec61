"""Puts a server together: its options, its sockets, its processes, the kinds of applications."""
