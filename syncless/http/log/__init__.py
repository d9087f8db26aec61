"""The logs of a server: the access log, and the error log."""
