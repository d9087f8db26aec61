"""The site called without a server: alone.py SITE SECONDS prints, for each load, the CPU time of a request in
µs and the body of the first answer."""

import asyncio
import importlib
import io
import json
import sys
import time

from asked import CHECKED, LOADS

CALLS = 20
"""So many are made before it is measured, and at least so many then."""


def of_wsgi(application, asked, number):
    body = asked.sent(number)
    target, _, query = asked.target(number).partition("?")
    environ = {
        "REQUEST_METHOD": asked.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": target,
        "QUERY_STRING": query,
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "127.0.0.1",
        "CONTENT_TYPE": asked.content_type,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    began = []
    answer = application(environ, lambda status, headers, error=None: began.append(status))
    found = b"".join(answer)
    if hasattr(answer, "close"):
        answer.close()
    assert began[0].startswith("200"), began
    return found


async def of_asgi(application, asked, number):
    body, sent = asked.sent(number), []
    target, _, query = asked.target(number).partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [
            (b"host", b"127.0.0.1"),
            *([(b"content-type", asked.content_type.encode())] if body else []),
            *([(b"content-length", b"%d" % len(body))] if body else []),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await application(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    return b"".join(message.get("body", b"") for message in sent[1:])


async def measure(site, seconds):
    application = importlib.import_module(f"site_{site}").application
    found = {}
    for load, asked in LOADS.items():

        async def call(number, asked=asked):
            if site == "fastapi":
                return await of_asgi(application, asked, number)
            return of_wsgi(application, asked, number)

        body = await call(CHECKED)
        for number in range(CALLS):
            await call(CHECKED + number)
        calls, end = 0, time.monotonic() + seconds
        began = time.process_time_ns()
        while calls < CALLS or time.monotonic() < end:
            calls += 1
            await call(CHECKED + calls)
        found[load] = {"cpu_us": (time.process_time_ns() - began) / calls / 1000, "body": body.decode()}
    return found


if __name__ == "__main__":
    work = measure(sys.argv[1], float(sys.argv[2]))
    if sys.argv[1] == "fastapi":
        print(json.dumps(asyncio.run(work)))
    else:  # Django refuses synchronous queries inside a running loop
        try:
            work.send(None)
        except StopIteration as end:
            print(json.dumps(end.value))
