"""The command line, workers and hooks with ASGI applications."""

import pytest

APP = """
import os

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        if os.environ.get("FAILS"):
            await send({{"type": "lifespan.startup.failed", "message": "no database here"}})
            return
        scope["state"]["version"] = {version}
        await send({{"type": "lifespan.startup.complete"}})
        await receive()
        await send({{"type": "lifespan.shutdown.complete"}})
        return
    body = b"asgi %d %s" % (scope["state"]["version"], scope["root_path"].encode())
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"x-kind", b"asgi")]}})
    await send({{"type": "http.response.body", "body": body}})

def old(environ, start_response):
    start_response("200 OK", [])
    return [b"wsgi " + environ["SCRIPT_NAME"].encode()]
"""


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_command_line_serves_asgi(program, workers):
    running = program(*workers, code=APP)
    assert running.get("/")[::2] == (200, "asgi 1 ")
    running.end()
    assert running.process.returncode == 0


@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_failing_lifespan_ends_the_start(program, workers, monkeypatch):
    monkeypatch.setenv("FAILS", "1")
    running = program(*workers, code=APP, serves=False)
    running.process.wait(60)
    assert running.process.returncode in (2, 3) and "no database here" in running.said()


def test_mounts_on_the_command_line(program):
    running = program("--mount", "/old=app:old", code=APP)
    assert running.get("/old/x")[2] == "wsgi /old"
    assert running.get("/")[2] == "asgi 1 "


def test_metrics_beside_an_asgi_application(program):
    pytest.importorskip("prometheus_client")
    running = program("--metrics", "/metrics", code=APP)
    assert running.get("/")[2] == "asgi 1 "
    assert "syncless_" in running.get("/metrics")[2]


HOOKS = r"""
import os

def before(variables):
    tell("before " + variables["PATH_INFO"])

def after(variables, status):
    tell("after " + variables["asgi.scope"]["type"] + " " + str(status))

def tell(line):                             # in one step: others print, too
    os.write(1, line.encode() + b"\n")
"""


def test_hooks_around_requests(program):
    hooks = ("--hook", "pre_request=app:before", "--hook", "post_request=app:after")
    running = program(*hooks, code=APP + HOOKS)
    assert running.get("/x")[2] == "asgi 1 "
    out = running.end()
    assert "before /x\nafter http 200\n" in out


IN_THREAD = """
import asyncio, threading, time

def here():
    return threading.current_thread() is threading.main_thread()

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    seen = [here()]
    time.sleep(0.001)                # parks the first step
    seen.append(here())
    await asyncio.sleep(0)
    seen.append(here())
    await asyncio.create_task(asyncio.sleep(0.001))
    seen.append(here())
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"x-pid", b"0")]}})
    await send({{"type": "http.response.body", "body": repr(seen).encode()}})
"""


def test_all_steps_of_a_request_are_in_the_main_thread(program):
    running = program(code=IN_THREAD)
    assert [running.get("/")[2] for _ in range(2)] == ["[True, True, True, True]"] * 2
