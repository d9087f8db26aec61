"""What a wheel must do wherever it is installed: serve requests, and patch."""

from syncless.patches import patch_all

patch_all()

import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
import urllib.request  # noqa: E402

from syncless.wsgi import Server  # noqa: E402


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"from the wheel"]


has_http2 = sys.platform == "linux"
server = Server(app, port=0, http2="cleartext" if has_http2 else "off").start()
host, port = server.addresses[0]
with urllib.request.urlopen(f"http://{host}:{port}/") as answer:
    assert answer.read() == b"from the wheel"
if has_http2:
    with socket.create_connection((host, port), timeout=60) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        assert client.recv(9)[3] == 4, "the server begins with SETTINGS"
server.stop()

begun = time.monotonic()
threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert time.monotonic() - begun < 5, "one thread slept after the other"
