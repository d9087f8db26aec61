"""ASGI servers, each as its documentation shows it, with one process: run_asgi.py SERVER PORT APPLICATION

A server that can be told to keep idle connections keeps them as long as the benchmark lasts.
"""

import os
import pathlib
import sys

server, port, application = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ["APPLICATION"] = application
BACKLOG, KEPT_SECONDS = 1024, 600
certfile, keyfile = os.environ.get("CERTFILE"), os.environ.get("KEYFILE")


def syncless():
    from served_asgi import application

    from syncless.wsgi import serve

    http2 = "cleartext" if os.environ["APPLICATION"].startswith("http2") else "off"
    serve(application, port=port, patch=True, http2=http2, certfile=certfile, keyfile=keyfile)


def granian():
    from granian.constants import Interfaces
    from granian.server import Server

    options = {"workers": 1, "backlog": BACKLOG, "backpressure": 12_000, "log_enabled": False}
    options["websockets"] = application == "echo"
    if application == "logged":
        options |= {"log_enabled": True, "log_access": True}
    if certfile:
        options |= {"ssl_cert": pathlib.Path(certfile), "ssl_key": pathlib.Path(keyfile)}
    Server(
        "served_asgi:application", address="127.0.0.1", port=port, interface=Interfaces.ASGI, **options
    ).serve()


def fastpysgi():
    import fastpysgi
    from served_asgi import application

    fastpysgi.run(application, host="127.0.0.1", port=port)


def freastal():
    from freastal import serve_asgi
    from served_asgi import application

    serve_asgi(application, host="127.0.0.1", port=port)


def uvicorn():
    import uvicorn

    quiet = {} if application == "logged" else {"access_log": False, "log_level": "critical"}
    uvicorn.run(
        "served_asgi:application",
        port=port,
        backlog=BACKLOG,
        loop="uvloop",
        http="httptools",
        timeout_keep_alive=KEPT_SECONDS,
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
        **quiet,
    )


def hypercorn():
    import uvloop
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from served_asgi import application

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.backlog = BACKLOG
    config.keep_alive_timeout = KEPT_SECONDS
    config.keep_alive_max_requests = 1 << 30
    config.accesslog = None
    config.certfile, config.keyfile = certfile, keyfile
    uvloop.run(serve(application, config))


def h2corn():
    command = str(pathlib.Path(sys.executable).with_name("h2corn"))
    options = ["--app-dir", sys.path[0], "--bind", f"127.0.0.1:{port}"]
    if certfile:
        options += ["--certfile", certfile, "--keyfile", keyfile]
    os.execv(command, [command, "served_asgi:application", *options])


def peregrine():
    from peregrine_command import run

    run("asgi", "served_asgi:application", port, application)


globals()[server]()
