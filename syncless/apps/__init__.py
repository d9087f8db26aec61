"""The kinds of applications that a server can serve."""
