"""What the handlers share: the fields of a query, and the parts of a response."""

try:
    from orjson import dumps as as_json
except ImportError:  # the standard library's does, at three times the cost
    import json

    def as_json(value):
        return json.dumps(value, separators=(",", ":")).encode()


OK = "200 OK"
TEXT = [("Content-Type", "text/plain")]
JSON = [("Content-Type", "application/json")]


def fields_of(environ):
    """The fields of the query string. HttpArena's are numbers and plain words: nothing is quoted."""
    pairs = [pair.partition("=") for pair in environ["QUERY_STRING"].split("&") if pair]
    return {name: value for name, _, value in pairs}
