"""Assembles a server: its options, its sockets, its processes and its kinds of applications."""
