"""Reads a file, logs it, answers hello; five seconds after the answer it reads and logs once more. The log is
named by LOG.

`application` is for uWSGI: with asyncio if LATER is set; else blocking, without the second reading, which
would take it for five seconds.
"""

import os

FILE = __file__
log = open(os.environ["LOG"], "a", buffering=1)  # noqa: SIM115


def read():
    with open(FILE, "rb") as file:
        log.write(f"{len(file.read())} bytes\n")


def answer(start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [b"Hello, World!"]


def application(environ, start_response):
    read()
    if "LATER" in os.environ:
        import asyncio

        asyncio.get_event_loop().call_later(5, read)
    return answer(start_response)
