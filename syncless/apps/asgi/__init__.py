"""ASGI 3 in the server, with the same connections, limits and logs as for WSGI.

Read application.pyx next, then exchange.pyx.
"""
