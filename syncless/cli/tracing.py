"""``syncless trace PID`` records what the tasklets of a process do and wait for, as a file for Perfetto."""

from __future__ import annotations

import argparse
import io
import json
import sys

from syncless.console.client import connected
from syncless.console.protocol import ProtocolError

COMMAND = "__import__('syncless.debug').debug.tracing.tell({})\n"


def trace(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="syncless trace",
        description="Write a Chrome trace of a process, for https://ui.perfetto.dev: the runs and waits of "
        "all tasklets, and the code that blocked the loop. The process must have a console "
        "(SYNCLESS_CONSOLE=1).",
    )
    parser.add_argument("target", metavar="PID", help="process ID, or the path of the console's socket")
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds to trace (default 5)")
    parser.add_argument(
        "-o", "--output", default="trace.json", metavar="FILE", help="output file (default trace.json)"
    )
    options = parser.parse_args(arguments)
    if not 0 < options.seconds < 3600:
        parser.error("--seconds must be greater than 0 and less than 3600")
    connection = connected(options.target)
    if connection is None:
        return 1
    told = io.StringIO()
    try:
        connection.run(COMMAND.format(options.seconds), told)
        events = json.loads(told.getvalue())
    except (OSError, EOFError, ProtocolError) as error:
        print(f"syncless: {error or 'the connection is lost'}", file=sys.stderr)
        return 1
    except ValueError:
        print(f"syncless: the process sent no trace:\n{told.getvalue()}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    try:
        with open(options.output, "w") as file:
            file.write(told.getvalue())
    except OSError as error:
        print(f"syncless: {options.output}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{options.output}: {len(events)} events; open it with https://ui.perfetto.dev")
    return 0
