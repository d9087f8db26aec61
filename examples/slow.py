"""A handler that sleeps while other requests run: 1,000 clients of /slow wait one second in total.

Run ``python -m examples.slow`` and, in two shells, ``curl localhost:8000/slow`` and ``curl localhost:8000/``.
"""

import syncless
from syncless.wsgi import serve


def app(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        syncless.sleep(1)
        body = b"slow\n"
    else:
        body = b"fast\n"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body]


if __name__ == "__main__":
    serve(app)
