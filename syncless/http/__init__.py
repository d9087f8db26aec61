"""The HTTP server, from the listening socket to a request's head and body, and back. It is independent of
WSGI."""
