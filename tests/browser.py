"""A real browser without a window, for tests of pages and of what a page's script may do."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile

from tests.preload import without_preload
from tests.waiting import eventually

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def browse(url, *more):
    """A headless browser on its way to the page, with these options, too; stop it by terminate()."""
    folder = tempfile.mkdtemp()
    options = "--headless --no-sandbox --no-first-run"
    for off in ("gpu", "quic", "background-networking", "sync", "component-update", "dev-shm-usage"):
        options += f" --disable-{off}"
    return subprocess.Popen(
        [BROWSER, *options.split(), f"--user-data-dir={folder}", "--remote-debugging-port=0", *more, url],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=without_preload(),
    ), folder


class Page:
    """A page in the browser, reached by the DevTools protocol."""

    def __init__(self, socket):
        self._socket = socket
        self._number = 0

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page."""
        self._number += 1
        parameters = {"expression": expression, "returnByValue": True}
        self._socket.send(
            json.dumps({"id": self._number, "method": "Runtime.evaluate", "params": parameters})
        )
        while True:
            message = json.loads(self._socket.recv(timeout=45))
            if message.get("id") == self._number:
                return message["result"]["result"].get("value")


@contextlib.contextmanager
def page_of(url):
    """The page at the URL, in a browser that ends with the block. Another process serves it."""
    import urllib.request

    from websockets.sync.client import connect

    browser, folder = browse(url)
    try:
        found = pathlib.Path(folder) / "DevToolsActivePort"
        assert eventually(lambda: found.exists() and found.read_text().count("\n"), 45)
        port = found.read_text().split()[0]

        def pages():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=45) as answer:
                return [one for one in json.load(answer) if one["type"] == "page" and one["url"] == url]

        assert eventually(pages, 45)
        with connect(pages()[0]["webSocketDebuggerUrl"], max_size=None) as socket:
            yield Page(socket)
    finally:
        browser.terminate()
        browser.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
