"""Static files: requests per second and CPU time of the server for each, beside nginx and WhiteNoise.

``python -m benchmark.static [SECONDS]`` runs each server on one core and wrk on another, and prints a table.
CPU time is that of the server's processes, the kernel's part for them included: on a machine that does other
things as well it is the figure to compare.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

FILES = {"1 kB": 1_000, "16 kB": 16_000, "100 kB": 100_000, "1 MB": 1_000_000}
CONNECTIONS = 32
NGINX = """daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 512; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; types {{ text/javascript js; }}
  server {{ listen 127.0.0.1:{port}; location /s/ {{ alias {folder}/site/; }} }} }}
"""
APP = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"application"]

def noise():
    from whitenoise import WhiteNoise
    return WhiteNoise(app, "site", "/s/")
"""
PYTHON = [sys.executable, "-m"]
SERVERS = {
    "nginx": ["nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf"],
    "syncless --static": [
        *PYTHON,
        "syncless",
        "app:app",
        "--bind",
        "127.0.0.1:{port}",
        "--static",
        "/s=site",
    ],
    "WhiteNoise on syncless": [*PYTHON, "syncless", "app:noise()", "--bind", "127.0.0.1:{port}"],
    "WhiteNoise on gunicorn": [
        *(*PYTHON, "gunicorn", "app:noise()", "--bind", "127.0.0.1:{port}"),
        *("--threads", str(CONNECTIONS), "--no-control-socket"),
    ],
}


def family(pid: int) -> list[int]:
    """The process and its children."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(other for child in children for other in family(int(child)))]


def cpu(pid: int) -> float:
    """Seconds that a server's processes have run."""
    ticks = 0
    for process in family(pid):
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait(port: int, size: int) -> None:
    for _ in range(100):
        try:
            body = urllib.request.urlopen(f"http://127.0.0.1:{port}/s/1000.js", timeout=1).read()
            assert len(body) == size
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not answer")


def load(port: int, size: int, seconds: int) -> float:
    """Requests that were answered in that time."""
    command = ["taskset", "-c", "1", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}"]
    told = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/s/{size}.js"], capture_output=True, text=True, check=True
    ).stdout
    assert "Non-2xx" not in told, told
    return int(re.search(r"(\d+) requests in", told)[1])  # type: ignore[index]


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"| {'':24} | " + " | ".join(f"{name:>17}" for name in FILES) + " |")
    print("|---" * (len(FILES) + 1) + "|")
    for number, (name, command) in enumerate(SERVERS.items()):
        if shutil.which(command[0], path=os.environ["PATH"] + ":/usr/sbin") is None:
            print(f"| {name:24} | is not installed |")
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            folder.chmod(0o755)
            port = 8200 + number
            (folder / "site").mkdir()
            for size in FILES.values():
                (folder / "site" / f"{size}.js").write_bytes(os.urandom(size // 2).hex().encode())
            (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
            (folder / "app.py").write_text(APP)
            words = [word.format(folder=folder, port=port) for word in command]
            server = subprocess.Popen(
                ["taskset", "-c", "0", *words],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                wait(port, 1000)
                cells = []
                for size in FILES.values():
                    load(port, size, 1)
                    before = cpu(server.pid)
                    done = load(port, size, seconds)
                    cost = (cpu(server.pid) - before) / done
                    cells.append(f"{done / seconds:7.0f}/s {cost * 1e6:5.1f} us")
                print(f"| {name:24} | " + " | ".join(f"{cell:>17}" for cell in cells) + " |", flush=True)
            finally:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    main()
