"""``python -m benchmark.engine LIBRARY time|memory DIVISOR`` prints one JSON object: CPU ns per operation, or bytes per tasklet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from benchmark.engine import asynchronous, blocking, raw
from benchmark.servers import BUILD, HERE, Absent


def go(what: str, divisor: int) -> dict[str, float]:
    """Goroutines on one processor, by a program of their own."""
    compiler = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
    if compiler is None:
        raise Absent("there is no Go compiler")
    program = BUILD / "goroutines"
    source = HERE.parent / "engine" / "goroutines"
    if not program.exists() or program.stat().st_mtime < (source / "main.go").stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, "build", "-o", program, "."], cwd=source, check=True)
    environment = {**os.environ, "GOMAXPROCS": "1"}
    done = subprocess.run([program, what, str(divisor)], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


LIBRARIES: dict[str, Callable[[str, int], dict[str, float]]] = {
    "syncless": lambda what, divisor: blocking.run(blocking.Syncless(), what, divisor),
    "gevent": lambda what, divisor: blocking.run(blocking.Gevent(), what, divisor),
    "eventlet": lambda what, divisor: blocking.run(blocking.Eventlet(), what, divisor),
    "threads": lambda what, divisor: blocking.run(blocking.Threads(), what, divisor),
    "asyncio": lambda what, divisor: asynchronous.run(False, what, divisor),
    "uvloop": lambda what, divisor: asynchronous.run(True, what, divisor),
    "greenlet": raw.run,
    "go": go,
}

if __name__ == "__main__":
    try:
        found = LIBRARIES[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    except (Absent, ImportError) as error:
        sys.exit(str(error))
    print(json.dumps(found), flush=True)
    os._exit(0)  # ending 100,000 tasklets one by one is not what is measured
