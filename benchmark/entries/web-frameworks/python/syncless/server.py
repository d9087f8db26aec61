"""The three routes of https://github.com/the-benchmarker/web-frameworks, on plain WSGI."""

TEXT = [("Content-Type", "text/plain")]


def app(environ, start_response):
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if (method == "GET" and path == "/") or (method == "POST" and path == "/user"):
        body = b""
    elif method == "GET" and path.startswith("/user/"):
        body = path[6:].encode("latin-1")
    else:
        start_response("404 Not Found", TEXT)
        return [b""]
    start_response("200 OK", TEXT)
    return [body]
