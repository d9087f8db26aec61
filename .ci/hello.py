"""What a wheel must do wherever it is installed: serve a request, and patch."""

from syncless.patches import patch_all

patch_all()

import threading  # noqa: E402
import time  # noqa: E402
import urllib.request  # noqa: E402

from syncless.wsgi import Server  # noqa: E402


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"from the wheel"]


server = Server(app, port=0).start()
host, port = server.addresses[0]
with urllib.request.urlopen(f"http://{host}:{port}/") as answer:
    assert answer.read() == b"from the wheel"
server.stop()

begun = time.monotonic()
threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(50)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert time.monotonic() - begun < 5, "one thread slept after the other"
