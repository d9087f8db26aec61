"""Servers, each with the settings that its own page recommends for an application that waits for a database:
serve.py SERVER PORT MODULE. They have one core.

As in run_wsgi.py, each is allowed as many connections as the benchmark opens, and keeps idle ones as long as
the benchmark lasts.
"""

import importlib
import os
import sys

server, port, module = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CONNECTIONS, KEPT_SECONDS = 2000, 600
CORES = 1
ASGI = module == "site_fastapi"


def syncless():
    from syncless.patches import patch_all

    patch_all()  # docs/start/django.md: "The standard library is patched before the project is imported"
    application = importlib.import_module(module).application
    from syncless.wsgi import serve

    # docs/howto/databases.md, "How large a pool": requests = 50. Its `queued` of 200 would refuse some of 512
    # clients that each send the next request at once.
    serve(application, port=port, patch=True, requests=50, queued=CONNECTIONS, queue_seconds=60, quiet=True)


def gunicorn(kind, **options):
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):
        def load_config(self):
            settings = {
                "bind": f"127.0.0.1:{port}",
                # docs.gunicorn.org/en/stable/design.html#how-many-workers: (2 x $num_cores) + 1
                "workers": 2 * CORES + 1,
                "worker_class": kind,
                "worker_connections": CONNECTIONS,
                "keepalive": KEPT_SECONDS,
                "loglevel": "error",
            }
            for name, value in {**settings, **options}.items():
                self.cfg.set(name, value)

        def load(self):
            return importlib.import_module(module).application

    Application().run()


def gthread():
    # docs.gunicorn.org/en/stable/settings.html#threads: "generally in the 2-4 x $(NUM_CORES) range"
    gunicorn("gthread", threads=4 * CORES)


def gevent():
    import gevent.monkey

    gevent.monkey.patch_all()

    def post_fork(server, worker):
        # pypi.org/project/psycogreen: patch_psycopg(), in gunicorn after the fork
        from psycogreen.gevent import patch_psycopg

        patch_psycopg()

    gunicorn("gevent", post_fork=post_fork)


def granian():
    from granian.constants import Interfaces
    from granian.server import Server

    # github.com/emmett-framework/granian, "Workers and threads": as many workers as cores; "Backpressure":
    # above the number of kept connections, and then "it's probably better to configure the blocking threads
    # number" if the connections to a database are limited: the pool has 20. Under ASGI there is one thread.
    options = {"blocking_threads": 1 if ASGI else 20, "backlog": 1024, "backpressure": CONNECTIONS}
    Server(
        f"{module}:application",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI if ASGI else Interfaces.WSGI,
        workers=CORES,
        log_enabled=False,
        **options,
    ).serve()


def uvicorn():
    import uvicorn

    os.environ["GATEWAY"], os.environ["DATABASE_POOL"] = "ASGI", "1"
    application = importlib.import_module(module).application
    if module == "site_flask":
        # flask.palletsprojects.com/en/stable/deploying/asgi: WsgiToAsgi of asgiref
        from asgiref.wsgi import WsgiToAsgi

        application = WsgiToAsgi(application)
    # uvicorn.dev/settings: uvloop and httptools where they are installed; uvicorn.dev/deployment: a worker
    # for each core. Without the access log, which the others do not write, either.
    uvicorn.run(
        application,
        port=port,
        backlog=2048,
        timeout_keep_alive=KEPT_SECONDS,
        access_log=False,
        log_level="error",
    )


def peregrine():
    options = {
        "--protocol": "asgi" if ASGI else "wsgi",
        "--port": port,
        "--python-path": sys.path[0],
        # github.com/grepjava/peregrine, CONFIG.md, "Inline or on a thread pool": a worker for each core, and
        # "Views that wait — on a database [...] — want a pool": --wsgi-threads 8
        "--workers": CORES,
        "--wsgi-threads": 8,
        "--max-connections": CONNECTIONS,
        "--keep-alive": KEPT_SECONDS * 1000,
        "--log-level": "silent",
    }
    words = [str(word) for option in options.items() for word in option]
    os.execv(sys.executable, [sys.executable, "-m", "peregrine", f"{module}:application", *words])


{
    "syncless": syncless,
    "gunicorn, gthread": gthread,
    "gunicorn, gevent": gevent,
    "granian": granian,
    "uvicorn": uvicorn,
    "peregrine": peregrine,
}[server]()
