"""Twisted's reactor and Tornado's loop under the patch: tasklets run beside them, and wait for them."""

import pytest

from tests.programs import check

pytestmark = pytest.mark.slow

BESIDE = """
import time, urllib.request
import syncless
turns = []
def takes_turns():
    while True:
        turns.append(1)
        time.sleep(0.001)
syncless.spawn(takes_turns)
def ask(port):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).read()
"""


def test_tornado_serves_a_tasklet_while_others_run():
    pytest.importorskip("tornado", reason="runs Tornado's loop: pip install tornado")
    check(
        BESIDE
        + """
import asyncio
import tornado.httpclient, tornado.web

class Handler(tornado.web.RequestHandler):
    async def get(self):
        before = len(turns)
        while len(turns) < before + 3:
            await asyncio.sleep(0.001)
        self.write("answered")

async def main():
    server = tornado.web.Application([("/", Handler)]).listen(0, "127.0.0.1")
    (listening,) = server._sockets.values()
    port = listening.getsockname()[1]
    asking = syncless.spawn(ask, port)
    answer = await tornado.httpclient.AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/")
    while not asking.ready():
        await asyncio.sleep(0.001)
    assert asking.result() == answer.body == b"answered"

asyncio.run(main())
"""
    )


def test_twisted_serves_a_tasklet_while_others_run():
    pytest.importorskip("twisted", reason="runs Twisted's reactor: pip install twisted")
    check(
        BESIDE
        + """
from twisted.internet import reactor, task, threads
from twisted.web import resource, server

class Page(resource.Resource):
    isLeaf = True
    def render_GET(self, request):
        def answer(_):
            request.write(b"answered")
            request.finish()
        before = len(turns)
        waiting = task.LoopingCall(lambda: len(turns) < before + 3 or waiting.stop())
        waiting.start(0.001).addCallback(answer)
        return server.NOT_DONE_YET

port = reactor.listenTCP(0, server.Site(Page()), interface="127.0.0.1").getHost().port
answers = []
def asks():
    answers.append(ask(port))
    reactor.callFromThread(lambda: threads.deferToThread(ask, port).addCallback(ends))
def ends(answer):
    answers.append(answer)
    reactor.stop()
syncless.spawn(asks)
reactor.run()
assert answers == [b"answered", b"answered"]
"""
    )
