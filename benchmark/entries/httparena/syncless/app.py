"""HttpArena's profiles on plain WSGI: see https://www.http-arena.com."""

import json
import os
import time

from answers import JSON, OK, TEXT, as_json, fields_of

try:
    with open(os.environ.get("DATASET_PATH", "/data/dataset.json")) as file:
        ITEMS = json.load(file)
except OSError:
    ITEMS = []
OCTETS = [("Content-Type", "application/octet-stream")]


def pipeline(environ, argument):
    return OK, TEXT, b"ok"


def baseline(environ, argument):
    total = sum(map(int, fields_of(environ).values()))
    if environ["REQUEST_METHOD"] == "POST":
        total += int(environ["wsgi.input"].read())
    return OK, TEXT, b"%d" % total


def delay(environ, argument):
    time.sleep(int(argument) / 1000)  # the patch lets the other requests go on
    return OK, TEXT, argument.encode()


def items(environ, argument):
    factor = int(fields_of(environ).get("m", 1))
    found = [{**item, "total": item["price"] * item["quantity"] * factor} for item in ITEMS[: int(argument)]]
    return OK, JSON, as_json({"items": found, "count": len(found)})


def echo(environ, argument):
    return OK, OCTETS, environ["wsgi.input"].read()


def messages(environ, argument):
    websocket = environ.get("wsgi.websocket")
    if websocket is None:
        return "426 Upgrade Required", [("Upgrade", "websocket"), *TEXT], b"There is a WebSocket here."
    for message in websocket:
        websocket.send(message)
    return OK, TEXT, b""  # dropped: it was a WebSocket


def missing(environ, argument):
    return "404 Not Found", TEXT, b"Not Found"


ROUTES = {
    "pipeline": pipeline,
    "baseline11": baseline,
    "baseline2": baseline,
    "delay": delay,
    "json": items,
    "echo": echo,
    "ws": messages,
}
if "DATABASE_URL" in os.environ:
    import database

    ROUTES |= {"async-db": database.found, "crud": database.crud}


def app(environ, start_response):
    name, _, argument = environ["PATH_INFO"][1:].partition("/")
    status, fields, body = ROUTES.get(name, missing)(environ, argument)
    start_response(status, fields)
    return [body]
