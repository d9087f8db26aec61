"""The fuzzing client of Autobahn|Testsuite against our WebSockets, by WSGI and by ASGI.

``python -m tests.autobahn WSTEST ...``: the words start its program `wstest`, which needs Python 2.7. Prints
how many of the cases 1 to 13 passed, and names those that did not. For a failure that is not among the known
ones the exit status is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from tests.waiting import eventually

APPLICATIONS = """
def wsgi(environ, start_response):
    websocket = environ["wsgi.websocket"]
    while (message := websocket.receive()) is not None:
        websocket.send(message)
    return []

async def asgi(scope, receive, send):
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})
"""
LIMIT = "websocket_bytes=33554432"
"""Twice the largest message of the cases."""
PASSED = ("OK", "INFORMATIONAL")
KNOWN: dict[str, str] = {}
"""What cases that do not pass are known to give, by their numbers."""


@contextlib.contextmanager
def served(kind: str, folder: pathlib.Path):
    """The URL of the application of that kind."""
    log = folder / f"{kind}.log"
    command = [sys.executable, "-m", "syncless", "--bind", "127.0.0.1:0", "--interface", kind]
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--limit", LIMIT, f"--chdir={folder}", f"applications:{kind}"],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        assert eventually(lambda: "serves on" in log.read_text() or server.poll() is not None, 60)
        found = re.search(r"http://(\S+?)/", log.read_text())
        if found is None:
            raise SystemExit(log.read_text())
        yield f"ws://{found[1]}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.autobahn", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="*", help="such as 9.* (default: all)")
    parser.add_argument("wstest", nargs=argparse.REMAINDER, help="python2.7 -m autobahntestsuite.wstest")
    options = parser.parse_args()
    if not options.wstest:
        parser.error("name its program: python2.7 -m autobahntestsuite.wstest")
    new = 0
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        (folder / "applications.py").write_text(APPLICATIONS)
        servers = [
            {"agent": kind, "url": stack.enter_context(served(kind, folder))} for kind in ("wsgi", "asgi")
        ]
        specification = folder / "specification.json"
        specification.write_text(
            json.dumps(
                {
                    "outdir": str(folder / "reports"),
                    "servers": servers,
                    "cases": [options.cases],
                    "exclude-cases": [],
                    "exclude-agent-cases": {},
                }
            )
        )
        command = [*options.wstest, "-m", "fuzzingclient", "-s", str(specification)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=7200)
        index = folder / "reports" / "index.json"
        if done.returncode or not index.exists():
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for agent, cases in json.loads(index.read_text()).items():
            failed = {
                case: outcome["behavior"]
                for case, outcome in cases.items()
                if outcome["behavior"] not in PASSED or outcome["behaviorClose"] not in PASSED
            }
            fresh = {case: outcome for case, outcome in failed.items() if KNOWN.get(case) != outcome}
            new += len(fresh)
            told = f"{len(cases) - len(failed)} pass, {len(failed) - len(fresh)} known failures"
            print(f"{agent}: {told}, new failures: {fresh or 'none'}", flush=True)
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
