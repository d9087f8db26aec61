"""Makes the screenshots of the documentation anew: ``python -m scripts.docs.screenshots``. Needs Chromium and
matplotlib.

The demo of ``make serve`` runs with a few slow requests. Its front page, its list of tasklets, its status
page and a session of the console are photographed into docs/pictures/. So is the slow request of a shop.
"""

from __future__ import annotations

import html
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PICTURES = pathlib.Path(__file__).parent.parent.parent / "docs" / "pictures"
SLOW_REQUESTS = 3
SHOP = """import socket
import syncless

database = socket.create_server(("127.0.0.1", {database}))

def answer_queries():
    connection, _ = database.accept()
    while connection.recv(100):
        syncless.sleep(0.03)
        connection.sendall(b"Alice")

def customer_of(order):
    connection.sendall(order.encode())
    return connection.recv(100)

def current_prices():
    syncless.sleep(0.25)

syncless.spawn(answer_queries)
connection = socket.create_connection(database.getsockname())

def app(environ, start_response):
    current_prices()
    customers = [customer_of(str(order)) for order in range(8)]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return customers
"""
TERMINAL = """<meta charset="utf-8"><style>
body {{ margin: 0; background: #1e293b; color: #e2e8f0 }}
pre {{ margin: 16px; font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap }}
</style><pre>{}</pre>"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def photograph(url: str, name: str, height: int, *options: str) -> None:
    """`options`: of Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("there is no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--force-device-scale-factor=1",
                f"--user-data-dir={profile}",
                f"--window-size=900,{height}",
                f"--screenshot={PICTURES / name}",
                *options,
                url,
            ],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )


def cut_off(picture: pathlib.Path, above: int) -> None:
    """So many pixels."""
    from matplotlib import image

    image.imsave(picture, image.imread(picture)[above:])


def console(pid: int) -> str:
    """A session of the console, as a terminal shows it."""
    typed = "print(debug.format_tasklets(stacks=False))"
    shown = subprocess.run(
        [sys.executable, "-m", "syncless", "console", str(pid)],
        input=f"{typed}\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    return f"$ syncless console {pid}\n>>> {typed}\n{shown.stdout}{shown.stderr}"


def slow_request() -> None:
    """The status page of a shop, with its slowest request opened."""
    port, status, database = free_port(), free_port(), free_port()
    addresses = ["--bind", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}"]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "shop.py").write_text(SHOP.format(database=database))
        command = [sys.executable, "-m", "syncless", "shop:app", *addresses]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None and "serves" in server.stdout.readline()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/orders").read()
            photograph(f"http://127.0.0.1:{status}/#slowest", "slow-request.png", 1460)
            cut_off(PICTURES / "slow-request.png", 745)
        finally:
            server.terminate()
            server.wait(30)


def main() -> None:
    slow_request()
    port, status = free_port(), free_port()
    addresses = ["--bind", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "syncless", "examples.demo", *addresses],
        env=os.environ | {"SYNCLESS_CONSOLE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    waiting: list[subprocess.Popen[bytes]] = []
    try:
        assert server.stdout is not None and "serves" in server.stdout.readline()
        url = f"http://127.0.0.1:{port}"
        slow = [
            sys.executable,
            "-c",
            f"import urllib.request as u; u.urlopen('{url}/slow?seconds=20').read()",
        ]
        waiting = [subprocess.Popen(slow) for _ in range(SLOW_REQUESTS)]
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if urllib.request.urlopen(f"{url}/tasklets").read().count(b"/slow") >= SLOW_REQUESTS:
                break
            time.sleep(0.1)
        photograph(f"{url}/", "demo.png", 420)
        photograph(f"{url}/tasklets", "tasklets.png", 420)
        photograph(f"http://127.0.0.1:{status}/", "status.png", 620)
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "console.html"
            page.write_text(TERMINAL.format(html.escape(console(server.pid))))
            photograph(page.as_uri(), "console.png", 300)
    finally:
        for each in [*waiting, server]:
            each.terminate()
            each.wait(30)


if __name__ == "__main__":
    main()
