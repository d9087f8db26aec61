"""Python 3.16 has no event loop policies. `make check` runs the tests of this folder and of ASGI so."""

import pytest

from tests.programs import run_python

SERVE = """
import asyncio
import urllib.request
import syncless
from syncless.wsgi import Server

seen = []

def wsgi(environ, start_response):
    start_response("200 OK", [])
    asyncio.get_event_loop().call_soon(seen.append, "timer of a request")
    return [b"WSGI"]

async def asgi(scope, receive, send):
    assert asyncio.get_event_loop() is asyncio.get_running_loop()
    await asyncio.sleep(0)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ASGI"})

for application, answer in ((wsgi, b"WSGI"), (asgi, b"ASGI")):
    with Server(application, port=0) as server:
        def get():
            return urllib.request.urlopen(server.url, timeout=60).read()
        assert syncless.run_in_thread(get) == answer
while not seen:
    syncless.sleep(0.001)

async def kind():
    return type(asyncio.get_running_loop())
"""
PATCHED = """
import warnings
warnings.simplefilter("error")
from syncless.patches import patch_all, unpatch
patch_all(strict=True)
"""
OURS = """
from syncless.asyncio import EventLoop
assert asyncio.run(kind()) is EventLoop
new = asyncio.new_event_loop()
assert type(new) is EventLoop
assert asyncio.get_event_loop().run_until_complete(kind()) is not EventLoop     # the background loop
asyncio.set_event_loop(new)
assert asyncio.get_event_loop() is new and asyncio.events.get_event_loop is asyncio.get_event_loop
asyncio.set_event_loop(None)
assert asyncio.get_event_loop() is not new
new.close()
"""
RESTORED = """
unpatch()
assert issubclass(asyncio.run(kind()), asyncio.SelectorEventLoop) and asyncio.run(kind()) is not EventLoop
"""
OFFERED = """
from syncless.server.serve import Patching
Patching(False)()
Patching(False)()
assert asyncio.run(kind()) is asyncio.SelectorEventLoop
"""


@pytest.mark.parametrize(
    "program",
    [
        PATCHED + SERVE + OURS + RESTORED,
        "import syncless.asyncio\nsyncless.asyncio.install()\n" + SERVE + OURS,
        OFFERED.replace("assert", SERVE + "assert"),
    ],
    ids=["patched", "installed", "not patched"],
)
def test_servers_and_loops_need_no_policies(program):
    run_python("import tests.without_policies\n" + program)
