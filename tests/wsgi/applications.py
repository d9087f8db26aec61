"""Small applications for tests."""

HELLO = b"Hello, World!"


def plain(*body, status="200 OK", headers=()):
    def app(environ, start_response):
        start_response(status, [("Content-Type", "text/plain"), *headers])
        return list(body)

    return app
