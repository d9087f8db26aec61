"""A server for static files: ``python -m syncless examples.files`` serves the working directory, or the
directory in FILES_ROOT.

This code does not mention coroutines. Small files come from memory, and sendfile sends large ones; a slow
disk blocks only the requests that use it.
"""

import mimetypes
import os
from html import escape
from urllib.parse import quote
from wsgiref.util import FileWrapper

from syncless.patches import patch_all

patch_all()

ROOT = os.path.realpath(os.environ.get("FILES_ROOT", "."))


def application(environ, start_response):
    wanted = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
        return []
    try:
        path = os.path.realpath(os.path.join(ROOT, wanted.lstrip("/")))
        if os.path.commonpath([ROOT, path]) != ROOT:
            raise FileNotFoundError(path)  # a link to a file outside ROOT
        if os.path.isdir(path):
            return listing(path, wanted, start_response)
        file = open(path, "rb")  # noqa: SIM115  (the server closes it)
    except (OSError, ValueError):
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"There is no such file here.\n"]
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    start_response(
        "200 OK", [("Content-Type", kind), ("Content-Length", str(os.fstat(file.fileno()).st_size))]
    )
    return environ.get("wsgi.file_wrapper", FileWrapper)(file, 65536)


def listing(path, wanted, start_response):
    with os.scandir(path) as entries:
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)
    base = "/" + wanted.strip("/") + "/" if wanted.strip("/") else "/"
    lines = "".join(f'<li><a href="{quote(base + name)}">{escape(name)}</a>' for name in names)
    title = escape(base)
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
    return [f"<!doctype html><title>{title}</title><h1>{title}</h1><ul>{lines}</ul>".encode()]
