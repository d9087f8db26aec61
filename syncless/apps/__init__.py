"""The kinds of applications that a server serves."""
