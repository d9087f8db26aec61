"""os.fork() in an ASGI application: the parent answers, and the child's process ends with its request."""

import pytest

from tests.waiting import eventually

APP = """
import asyncio, json, os, signal, sys, time

children = {{}}

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    path = scope["path"]
    body = b"parent"
    if path == "/children":
        for child, status in children.items():
            if status is None:
                found, status = os.waitpid(child, os.WNOHANG)
                if found:
                    children[child] = os.waitstatus_to_exitcode(status)
        body = json.dumps(list(children.values())).encode()
    else:
        if scope["query_string"]:
            await asyncio.sleep(0.001)
        child = os.fork()
        if child:
            children[child] = None
        else:
            body = b"child"
            if path == "/sleeps":
                time.sleep(0.01)
            elif path == "/raises":
                raise ValueError("of the child")
            elif path == "/exits":
                sys.exit(4)
            elif path == "/awaits":
                await asyncio.sleep(0.01)
            elif path == "/runs":
                sys.exit(asyncio.run(asyncio.sleep(0.001, 5)))
            elif path == "/receives":
                assert (await receive())["type"] == "http.request"
                assert (await receive())["type"] == "http.disconnect"
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"x-pid", b"%d" % os.getpid())]}})
    await send({{"type": "http.response.body", "body": body}})
"""


@pytest.mark.parametrize("waits", ["", "?waits"])
def test_parent_answers_and_the_child_ends_with_its_request(program, waits):
    """In the first step of its task, and in a later one."""
    running = program(code=APP)
    statuses = {"returns": 0, "sleeps": 0, "receives": 0, "raises": 1, "exits": 4, "awaits": 1, "runs": 5}
    for path in statuses:
        assert running.get(f"/{path}{waits}") == (200, running.process.pid, "parent")
    expected = str(list(statuses.values()))
    assert eventually(lambda: running.get("/children")[2] == expected), running.get("/children")[2]
    said = running.said()
    assert said.count("Traceback") == 2, said
    assert "ValueError: of the child" in said and "RuntimeError: no running event loop" in said


SUBPROCESS = """
import asyncio, os, subprocess

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    child = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    body = (await child.communicate(b"a"))[0]
    body += await asyncio.to_thread(subprocess.check_output, ["echo", "b"])
    body += subprocess.check_output(["echo", "c"])  # parks the task only
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"x-pid", b"%d" % os.getpid())]}})
    await send({{"type": "http.response.body", "body": body}})
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_subprocesses(program, workers):
    running = program("--workers", workers, code=SUBPROCESS)
    assert [running.get()[2] for _ in range(2)] == ["ab\nc\n"] * 2
