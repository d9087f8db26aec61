"""peregrine's command line, in the place of the process that asks for it."""

import os
import sys


def run(protocol, target, port, application):
    options = {
        "--protocol": protocol,
        "--port": port,
        "--python-path": sys.path[0],
        "--backlog": 1024,
        "--max-connections": 12_000,
        "--max-body": 100_000_000,  # bytes
        "--keep-alive": 600_000,  # ms
        "--log-level": "silent",
    }
    command = [target, *(str(word) for option in options.items() for word in option)]
    if application == "sleep" and protocol == "wsgi":
        command += ["--wsgi-threads", "8"]
    if application == "logged":
        command.append("--access-log")
    if certfile := os.environ.get("CERTFILE"):
        command += ["--tls-cert", certfile, "--tls-key", os.environ["KEYFILE"]]
    os.execv(sys.executable, [sys.executable, "-m", "peregrine", *command])
