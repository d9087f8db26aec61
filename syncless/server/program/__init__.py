"""Runs a server as a program: its serving processes, its signals and its messages."""
