"""Servers written by others, on threads: ``python -m syncless run -m tests.patches.serving KIND PORT`` runs
one.

Its application sleeps for as many seconds as the path says.
"""

import sys
import time


def application(environ, start_response):
    time.sleep(float(environ["PATH_INFO"].split("/")[1]))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"slept"]


def cheroot(port):
    from cheroot.wsgi import Server

    Server(("127.0.0.1", port), application, numthreads=50, request_queue_size=100).safe_start()


def cherrypy(port):
    import cherrypy

    class Root:
        @cherrypy.expose
        def default(self, seconds):
            time.sleep(float(seconds))
            return "slept"

    cherrypy.config.update(
        {
            "environment": "embedded",
            "server.socket_port": port,
            "server.thread_pool": 50,
            "server.socket_queue_size": 100,
            "log.screen": False,
        }
    )
    cherrypy.quickstart(Root())


def waitress(port):
    from waitress import serve

    serve(application, host="127.0.0.1", port=port, threads=50, backlog=100, _quiet=True)


def gunicorn(port):
    from gunicorn.app.wsgiapp import run

    sys.argv = [
        "gunicorn",
        "--bind",
        f"127.0.0.1:{port}",
        "-k",
        "gthread",
        "--threads",
        "50",
        "--log-level",
        "warning",
    ]
    sys.argv.append("tests.patches.serving:application")
    run()


def http_server(port):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            time.sleep(float(self.path[1:]))
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"slept")

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 100

    Server(("127.0.0.1", port), Handler).serve_forever()


def wsgiref(port):
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    class Server(ThreadingMixIn, WSGIServer):
        request_queue_size = 100
        daemon_threads = True

    class Handler(WSGIRequestHandler):
        def log_message(self, *args):
            pass

    server = Server(("127.0.0.1", port), Handler)
    server.set_app(application)
    server.serve_forever()


def flask(port):
    """Its development server."""
    import logging

    from flask import Flask

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Flask("slow")
    app.add_url_rule("/<float:seconds>", "slow", lambda seconds: (time.sleep(seconds), "slept")[1])
    app.run("127.0.0.1", port)


SERVERS = {
    "cheroot": cheroot,
    "cherrypy": cherrypy,
    "waitress": waitress,
    "gunicorn": gunicorn,
    "http.server": http_server,
    "wsgiref": wsgiref,
    "flask": flask,
}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]))
