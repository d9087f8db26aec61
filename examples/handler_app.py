"""A handler class written for the standard library's http.server.

Run ``python -m examples.handler_app`` and visit http://127.0.0.1:8000/any/path.
"""

from http.server import BaseHTTPRequestHandler

from syncless.wsgi import serve


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(f"You asked for {self.path}\n".encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(body.upper())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


app = Handler

if __name__ == "__main__":
    serve(app)
