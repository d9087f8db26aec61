"""WSGI in the server.

Read application.pyx next, then input.pyx.
"""
