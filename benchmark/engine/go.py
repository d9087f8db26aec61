"""The same with goroutines on one processor, by a program of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from benchmark.servers import BUILD, HERE, Absent

SOURCE = HERE.parent / "engine" / "goroutines"


def run(what: str, divisor: int) -> dict[str, float]:
    """`what`: time, memory, memory 10k, names or files; nothing else is there."""
    if what == "schedule":
        return {}
    compiler = shutil.which("go") or (
        "/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None
    )
    if compiler is None:
        raise Absent("there is no Go compiler")
    program = BUILD / "goroutines"
    if not program.exists() or program.stat().st_mtime < max(
        file.stat().st_mtime for file in SOURCE.glob("*.go")
    ):
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, "build", "-o", program, "."], cwd=SOURCE, check=True)
    environment = {**os.environ, "GOMAXPROCS": "1"}
    done = subprocess.run(
        [program, what, str(divisor)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]
