"""WSGI in the server.

Next to read: application.pyx, then input.pyx.
"""
