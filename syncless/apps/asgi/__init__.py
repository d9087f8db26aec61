"""ASGI 3 in the server, with the same connections, limits and logs as for WSGI.

Next to read: application.pyx, then exchange.pyx.
"""
