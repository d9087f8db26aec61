"""WSGI servers, each as its documentation shows it, with one process: run_wsgi.py SERVER PORT APPLICATION
[WORKERS]

Each is allowed as many connections as the benchmark opens, and keeps idle ones as long as the benchmark
lasts.
"""

import os
import pathlib
import sys

server, port, application = sys.argv[1], int(sys.argv[2]), sys.argv[3]
workers = int((sys.argv[4:] or ["1"])[0])
CONNECTIONS, KEPT_SECONDS = 12_000, 600

if server == "eventlet":
    import eventlet

    eventlet.monkey_patch()
elif server == "gunicorn, gevent":
    import gevent.monkey

    gevent.monkey.patch_all()

from apps import named  # noqa: E402  (the patches come first)


def eventlet_():
    import eventlet.wsgi

    eventlet.wsgi.server(
        eventlet.listen(("127.0.0.1", port), backlog=1024),
        named(application),
        log_output=application == "logged",
        max_size=CONNECTIONS,
        keepalive=True,
    )


def waitress():
    import waitress

    limits = {
        "connection_limit": CONNECTIONS,
        "asyncore_use_poll": True,
        "channel_timeout": KEPT_SECONDS,
    }  # select() ends at descriptor 1023
    waitress.serve(
        named(application), host="127.0.0.1", port=port, threads=8, backlog=1024, _quiet=True, **limits
    )


def cheroot():
    from cheroot import wsgi

    server = wsgi.Server(
        ("127.0.0.1", port), named(application), numthreads=8, request_queue_size=1024, timeout=KEPT_SECONDS
    )
    server.keep_alive_conn_limit = CONNECTIONS
    server.start()


def gunicorn(kind, **options):
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):
        def load_config(self):
            settings = {
                "bind": f"127.0.0.1:{port}",
                "workers": workers,
                "worker_class": kind,
                "backlog": 2048,
                "loglevel": "error",
            }
            settings |= {"worker_connections": CONNECTIONS, "keepalive": KEPT_SECONDS}
            if application == "logged":
                settings["accesslog"] = "-"
            if "CERTFILE" in os.environ:
                settings |= {"certfile": os.environ["CERTFILE"], "keyfile": os.environ["KEYFILE"]}
            for name, value in {**settings, **options}.items():
                self.cfg.set(name, value)

        def load(self):
            return named(application)

    Application().run()


def granian():
    from granian.constants import Interfaces
    from granian.server import Server

    options = {
        "interface": Interfaces.WSGI,
        "workers": workers,
        "backlog": 1024,
        "backpressure": CONNECTIONS,
        "log_enabled": False,
    }
    if application == "logged":
        options |= {"log_enabled": True, "log_access": True}
    if "CERTFILE" in os.environ:
        options |= {
            "ssl_cert": pathlib.Path(os.environ["CERTFILE"]),
            "ssl_key": pathlib.Path(os.environ["KEYFILE"]),
        }
    Server("served:application", address="127.0.0.1", port=port, **options).serve()


def fastpysgi():
    import fastpysgi

    fastpysgi.server.max_content_length = 100_000_000
    fastpysgi.run(named(application), host="127.0.0.1", port=port)


def freastal():
    import freastal

    freastal.serve(named(application), host="127.0.0.1", port=port)


def pyruvate():
    import pyruvate

    pyruvate.serve(named(application), f"127.0.0.1:{port}", 8, max_reuse_count=0, keepalive_timeout=255)


def peregrine():
    from peregrine_command import run

    run("wsgi", "served:application", port, application)


{
    "eventlet": eventlet_,
    "waitress": waitress,
    "cheroot": cheroot,
    "gunicorn, gevent": lambda: gunicorn("gevent"),
    "gunicorn, gthread": lambda: gunicorn("gthread", threads=8),
    "granian": granian,
    "fastpysgi": fastpysgi,
    "freastal": freastal,
    "pyruvate": pyruvate,
    "peregrine": peregrine,
}[server]()
