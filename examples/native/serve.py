"""Native handlers beside a WSGI application: ``python serve.py``, after ``pip install .``

/hello and /fibonacci/{rounds} are computed in threads without the interpreter's lock, as is /numba if Numba
is installed. /prices is JSON that a tasklet refreshes every second. All else is the application's.
"""

import ctypes
import json
import time

import fast

import syncless
from syncless import native
from syncless.wsgi import serve

GREETING = ctypes.create_string_buffer(b"Hello from Numba")
PLAIN = ctypes.create_string_buffer(b"text/plain")


def numba_handler():
    """A native handler in Python, compiled by Numba."""
    import numba  # optional

    respond = native.functions()["respond"]
    body, size = ctypes.addressof(GREETING), len(GREETING.value)
    plain, plain_size = ctypes.addressof(PLAIN), len(PLAIN.value)

    @numba.cfunc(numba.types.intc(numba.types.uintp, numba.types.uintp))
    def answer(request, response):
        return respond(response, 200, plain, plain_size, body, size, 1)

    return answer


def routes():
    found = {"/hello": fast.hello, "/fibonacci/{rounds}": fast.fibonacci, "GET /prices": fast.prices}
    try:
        found["/numba"] = numba_handler()
    except ImportError:
        pass  # the other handlers do without it
    return found


def refresh(seconds=1.0):
    """Publishes the prices of the moment, for ever."""
    while True:
        native.publish("prices", json.dumps({"at": time.time(), "tea": 3, "coffee": 4}).encode())
        syncless.sleep(seconds)


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"Python answers {environ['PATH_INFO']}\n".encode()]


if __name__ == "__main__":
    syncless.spawn(refresh)
    serve(app, native=routes())
