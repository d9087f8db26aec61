"""syncless with native handlers: run_native.py LIBRARY PORT ROUTE FUNCTION [THREADS]; all other paths are
those of a WSGI application that says hello"""

import sys

from apps import named

import syncless
from syncless import native
from syncless.wsgi import serve

library, port, route, function = sys.argv[1:5]
threads = int((sys.argv[5:] or ["1"])[0])
serve(
    named("hello", syncless.sleep),
    port=int(port),
    native={route: native.load(library, function)},
    native_threads=threads,
    quiet=True,
)
