"""``syncless status`` shows in a terminal what a server with a status address is doing.

The exit status is 0 on success, 1 if no server responds, 2 if the command line is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from syncless.cli.config import ConfigError, Options
from syncless.cli.help import Parser, is_colourful
from syncless.http.log.notices import visible
from syncless.server.addresses import Bind, parse_bind

SECONDS = 5.0
"""For the server to answer."""
EVERY = 1.0
"""Seconds between two looks of --watch."""
CLEAR = "\033[H\033[J"
BEGIN, END = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
"""The terminal's other screen, without a cursor, and back."""
BOLD, QUIET, RED, YELLOW, GREEN = "1", "2", "31", "33", "32"


class NoStatus(Exception):
    """No server has responded with its status; the text says what to do."""


def status(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        text = options.address or _configured(options.config)
        text = f"127.0.0.1{text}" if text.startswith(":") else text  # of all addresses, this machine's
        bind = parse_bind(text.rstrip("/"))
        if options.watch:
            return _watch(text, bind)
        body = ask(text, bind)
    except (NoStatus, OSError) as error:
        print(f"syncless status: {error}", file=sys.stderr)
        return 1
    except (ConfigError, ValueError) as error:
        print(f"syncless status: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(body)
    else:
        print("\n".join(lines(json.loads(body), _width(), is_colourful(sys.stdout))))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="syncless status",
        description="Shows what a server started with --status ADDRESS is doing.",
        epilog="The default ADDRESS comes from SYNCLESS_STATUS, or from the configuration file.",
    )
    parser.add_argument(
        "address", nargs="?", help=":port, 127.0.0.1:port, http://127.0.0.1:port/ or unix:/path"
    )
    parser.add_argument("-w", "--watch", action="store_true", help="refresh it every second, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.add_argument("--config", metavar="FILE", help="the server's configuration file")
    return parser


def _configured(file: str | None) -> str:
    """Return the address that a server started here would have. Raise NoStatus, ConfigError or OSError on
    failure."""
    known = Options()
    found, name = known.from_file(file or os.environ.get("SYNCLESS_CONFIG"))
    found |= known.from_variables(os.environ)
    if not found.get("status"):
        where = f"{name} has no `status`" if name else "there is no configuration file with `status` here"
        raise NoStatus(
            f"which server? {where}; write its address, for example syncless status 127.0.0.1:9100"
        )
    return str(found["status"])


# -- asking -------------------------------------------------------------------------------------------


def ask(text: str, bind: Bind) -> str:
    """Return the status as JSON. Raise NoStatus on failure."""
    import http.client  # takes long to load

    connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
    try:
        connection.sock = _connect(bind)
        connection.request("GET", "/status.json")
        response = connection.getresponse()
        body = response.read().decode()
        if response.status != 200 or '"syncless"' not in body:
            raise NoStatus(
                f"{text} is not a syncless status address (HTTP {response.status}); is it another server?"
            )
    except (ConnectionRefusedError, FileNotFoundError):
        raise NoStatus(f"no server listens at {text}; start one with --status {text}") from None
    except TimeoutError:
        raise NoStatus(f"the server at {text} has not responded for {SECONDS:g} s") from None
    except http.client.HTTPException as error:
        raise NoStatus(f"{text} is not an HTTP server: {error!r}") from None
    except OSError as error:
        raise NoStatus(f"cannot query {text}: {error.strerror or error}") from None
    finally:
        connection.close()
    return body


def _connect(bind: Bind) -> socket.socket:
    if bind.path is None:
        host = "127.0.0.1" if bind.host in (None, "*") else bind.host
        return socket.create_connection((host, bind.port), SECONDS)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(SECONDS)
    try:
        sock.connect(bind.path)
    except OSError:
        sock.close()
        raise
    return sock


def _watch(text: str, bind: Bind) -> int:
    """Refresh the status until Ctrl-C, even after a restart of the server."""
    terminal = sys.stdout.isatty()
    colour = is_colourful(sys.stdout)
    shown = lines(json.loads(ask(text, bind)), _width(), colour)
    try:
        if terminal:
            sys.stdout.write(BEGIN)
        while True:
            if terminal:
                shown = shown[: shutil.get_terminal_size().lines - 1]
            sys.stdout.write((CLEAR if terminal else "") + "\n".join(shown) + "\n")
            sys.stdout.flush()
            time.sleep(EVERY)
            try:
                shown = lines(json.loads(ask(text, bind)), _width(), colour)
            except NoStatus as error:
                shown = [_paint(f"{error}; trying again", RED, colour)]
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    finally:
        if terminal:
            sys.stdout.write(END)
            sys.stdout.flush()


# -- showing ------------------------------------------------------------------------------------------


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200


def _paint(text: str, how: str, colour: bool) -> str:
    return f"\033[{how}m{text}\033[0m" if colour else text


def lines(told: dict[str, Any], width: int, colour: bool) -> list[str]:
    """Return the status as lines of text, each at most `width` characters wide."""
    ready = told["ready"]
    totals, workers = told["totals"], told["workers"]
    now = told["history"][-1] if told["history"] else None
    urls = ", ".join(visible(url) for url in told["urls"]) or "no address"
    parts = [f"syncless {told['syncless']} on {urls}", f"up {duration(told['time'] - told['started'])}"]
    if told["master"]:
        parts.append(f"master {told['master']}")
    state = _paint("ready" if ready else "not ready", GREEN if ready else RED, colour)
    shown = [f"{', '.join(parts)[: width - 11]}, {state}"]
    counts = f"{totals['answered']} answered, {sum(totals['refused_by_status'].values())} refused"
    if now is not None:
        counts = (
            f"{now['requests']:.1f} requests/s, {now['errors']:.1f} errors/s, "
            f"95 % below {duration(now['p95_seconds'])}, {counts}"
        )
    shown += [counts[:width], ""]
    rows: list[tuple[str, ...]] = [
        (
            *("PID", "STATE", "AGE", "IN FLIGHT", "QUEUED", "CONNS", "ANSWERED", "STALLS", "MEMORY"),
            *("CPU", "LOOP"),
        )
    ]
    rows += [_worker(worker) for worker in workers]
    states = [""] + [_state(worker)[1] for worker in workers]
    for number, (text, how) in enumerate(zip(_columns(rows, ">" * 11), states, strict=True)):
        shown.append(
            _paint(text[:width], BOLD if number == 0 else how, colour and (number == 0 or how != ""))
        )
    requests = sorted(
        ({**request, "pid": worker["pid"]} for worker in workers for request in worker["requests"]),
        key=lambda request: -request["seconds"],
    )
    more = sum(worker.get("more_requests", 0) for worker in workers)
    if requests:
        shown += ["", _paint(f"{len(requests) + more} in flight", BOLD, colour)]
        rows = [("PID", "AGE", "WAITS FOR", "REQUEST", "CLIENT", "IN")]
        rows += [_request(request) for request in requests]
        shown += [text[:width] for text in _columns(rows, ">><<<<")]
    shown += _stalls(workers, width, colour)
    return shown


def _worker(worker: dict[str, Any]) -> tuple[str, ...]:
    connections, limit = worker["connections"], worker.get("requests_limit", 0)
    return (
        str(worker["pid"]),
        _state(worker)[0],
        duration(worker["age_seconds"]),
        f"{connections['running']}/{limit}" if limit else str(connections["running"]),
        str(connections["queued"]),
        str(connections["open"]),
        str(worker["answered"]),
        str(worker["stalls"]),
        f"{worker['memory_bytes'] / 1e6:.0f} MB",
        duration(worker["cpu_seconds"]),
        f"{worker['utilization']:.0%}",
    )


def _state(worker: dict[str, Any]) -> tuple[str, str]:
    """Return the state as text, and its colour."""
    if not worker["answers"]:
        return f"no response for {duration(worker['silent_seconds'])}", RED
    if worker.get("held_seconds", 0.0) > 0.2:
        return f"blocked for {duration(worker['held_seconds'])}", RED
    return worker["state"], "" if worker["state"] == "ready" else YELLOW


def _request(request: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(request["pid"]),
        duration(request["seconds"]),
        visible(request["waits_for"] or request["state"]),
        visible(f"{request['method']} {request['path']}"),
        visible(request["client"]) or "-",
        visible(request["where"] or "-"),
    )


def _stalls(workers: list[dict[str, Any]], width: int, colour: bool) -> Iterator[str]:
    """Yield the last stall of each worker, with the end of its stack, and what they have had offloaded."""
    last = [(worker["pid"], worker["recent_stalls"][0]) for worker in workers if worker.get("recent_stalls")]
    if last:
        yield ""
        yield _paint("last stalls", BOLD, colour)
    for pid, stall in last:
        when = "now" if not stall["over"] else time.strftime("%H:%M:%S", time.localtime(stall["at"]))
        yield f"{pid} {when}, {duration(stall['seconds'])}:"[:width]
        for line in stall["stack"].splitlines()[-2:]:
            yield visible(line)[:width]
    cures = {cure["function"]: cure for worker in workers for cure in worker.get("self_cures", ())}
    for cure in cures.values():
        yield f"offloaded after {cure['stalls']} stalls: {visible(cure['function'])}"[:width]
    if cures:
        paths = ", ".join(f'"{visible(function)}"' for function in cures)
        yield f"  keep it in syncless.toml: [patch] offload = [{paths}]"


def _columns(rows: list[tuple[str, ...]], sides: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def duration(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 99.5:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"
