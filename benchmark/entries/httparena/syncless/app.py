"""HttpArena's profiles on plain WSGI: see https://www.http-arena.com."""

import json
import os
import time
from urllib.parse import parse_qsl

try:
    with open(os.environ.get("DATASET_PATH", "/data/dataset.json")) as file:
        ITEMS = json.load(file)
except OSError:
    ITEMS = []
TEXT = [("Content-Type", "text/plain")]
JSON = [("Content-Type", "application/json")]
OCTETS = [("Content-Type", "application/octet-stream")]


def numbers(environ):
    return dict(parse_qsl(environ["QUERY_STRING"]))


def pipeline(environ, argument):
    return TEXT, b"ok"


def baseline(environ, argument):
    total = sum(map(int, numbers(environ).values()))
    if environ["REQUEST_METHOD"] == "POST":
        total += int(environ["wsgi.input"].read())
    return TEXT, b"%d" % total


def delay(environ, argument):
    time.sleep(int(argument) / 1000)  # the patch lets the other requests go on
    return TEXT, argument.encode()


def items(environ, argument):
    factor = float(numbers(environ).get("m", 1))
    found = [{**item, "total": item["price"] * item["quantity"] * factor} for item in ITEMS[: int(argument)]]
    return JSON, json.dumps({"items": found, "count": len(found)}).encode()


def echo(environ, argument):
    return OCTETS, environ["wsgi.input"].read()


ROUTES = {
    "pipeline": pipeline,
    "baseline11": baseline,
    "delay": delay,
    "json": items,
    "json-comp": items,
    "echo": echo,
}


def app(environ, start_response):
    name, _, argument = environ["PATH_INFO"][1:].partition("/")
    answer = ROUTES.get(name)
    if answer is None:
        start_response("404 Not Found", TEXT)
        return [b"Not Found"]
    fields, body = answer(environ, argument)
    start_response("200 OK", fields)
    return [body]
