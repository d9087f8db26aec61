"""What benchmark/hostile.py attacks: run_hostile.py KIND PORT"""

import pathlib
import sys
import tempfile

from apps import echo, hello

from syncless.wsgi import serve


def taken(environ, start_response):
    """A WebSocket whose messages are received. What comes out of an unpacked one is the application's."""
    for _ in environ["wsgi.websocket"]:
        pass
    return []


kind, port = sys.argv[1], int(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "a.txt").write_bytes(b"x" * 2000)
    options = {
        "http1": {"http2": "cleartext"},
        "http2": {"http2": "cleartext"},
        "files": {"static": {"/s": folder}, "compress": True},
        "proxied": {"trusted": ["127.0.0.1"]},
        "announced": {"proxy_protocol": True, "trusted": ["127.0.0.1"]},
    }
    application = {"websocket": echo, "deflate": taken}.get(kind, hello)
    serve(application, port=port, quiet=True, **options.get(kind, {}))
