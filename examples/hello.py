"""The smallest WSGI application.

Run ``python -m examples.hello`` and visit http://127.0.0.1:8000/.
"""

from syncless.wsgi import serve


def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"Hello, World!\n"]


if __name__ == "__main__":
    serve(app)
