"""The application: of WSGI and of ASGI, with one view for each thing that real ones do.

A path is /VIEW or /VIEW/victim, the query size=BYTES&count=TIMES. Each answer has a header X-Is with the
query's `is`, so that a client knows an answer to another request. The calls that have begun and not ended are
counted.
"""

import asyncio
import importlib
import logging
import os
import queue
import sqlite3
import sys
import tempfile
import threading
import time
from urllib.parse import parse_qsl

import syncless
from syncless.wsgi import while_client_stays

LETTERS = {
    name: name[0].encode()
    for name in (
        *("list", "parts", "fields", "lock", "timed", "reentrant", "condition", "queue", "logging", "errors"),
        *("sleep", "thread", "file", "database", "imports"),
    )
}
"""What each of these answers consists of."""
SIZES = [0, 1, 10, 1000, 9000, 16384, 20000, 70000]
IN_THREADS = {
    "lock",
    "timed",
    "reentrant",
    "condition",
    "queue",
    "logging",
    "thread",
    "file",
    "database",
    "imports",
}
"""Views that an application of ASGI calls by asyncio.to_thread()."""

STAYS = 1000.0
LATE = 1.5
"""Seconds after which nobody waits for the body of a request that has ended."""

MODULE = """
import logging
import time

logging.getLogger("simulated").info("a module is imported")
time.sleep(0.002)
import colorsys

VALUE = __name__
"""
MODULES = 5


def expected(view, size, count):
    return LETTERS[view] * (size * count if view == "parts" else size)


class Application:
    """WSGI, and ASGI by the method `asgi`."""

    def __init__(self, log):
        self.running = 0
        self.wrong = []
        """What a view has seen that must not be."""
        self.lock, self.reentrant = threading.Lock(), threading.RLock()
        self.condition = threading.Condition()
        self.items = queue.Queue(2)
        self.holders = 0
        self.folder = tempfile.mkdtemp(prefix="simulate")
        self.imported = 0
        self.logger = logging.getLogger("simulated")
        self.logger.setLevel("INFO")
        self.logger.propagate = False
        self.logger.handlers[:] = [logging.StreamHandler(log)]
        # without transactions: a request that is killed would leave its own open
        self.database = sqlite3.connect(
            os.path.join(self.folder, "data"), isolation_level=None, check_same_thread=False
        )
        self.database.execute("create table visits (size int)")
        for i in range(MODULES):
            with open(os.path.join(self.folder, f"simulated_{i}.py"), "w") as file:
                file.write(MODULE)
        sys.path.append(self.folder)

    def close(self):
        sys.path.remove(self.folder)
        self.database.close()

    def __call__(self, environ, start_response):
        query = dict(parse_qsl(environ["QUERY_STRING"]))
        size, count = int(query.get("size", 10)), int(query.get("count", 3))
        view = environ["PATH_INFO"].split("/")[1]
        fields = [("X-Is", query.get("is", ""))]
        self.running += 1
        ended = False
        try:
            if view == "ws" and (websocket := environ.get("wsgi.websocket")) is not None:
                for message in websocket:
                    websocket.send(message)
                return []
            parts = getattr(self, "do_" + view, self.do_list)(size, count, environ, fields)
            start_response("200 OK", fields)
            if isinstance(parts, list):
                return parts
            ended = True  # by close()
            return Counted(self, parts)
        finally:
            self.running -= not ended

    # -- views: a list of parts, or a generator ------------------------------------------------------------

    def do_list(self, size, count, environ, fields):
        fields.append(("Content-Length", str(size)))
        return [b"l" * size]

    def do_parts(self, size, count, environ, fields):
        for i in range(count):
            yield b"p" * size
            if i % 3 == 0:
                time.sleep(0.01)

    def do_endless(self, size, count, environ, fields):
        while True:  # something each time: who sends nothing need not notice that the client has left
            yield b"e" * max(size, 100)
            time.sleep(0.01)

    def do_echo(self, size, count, environ, fields):
        return [environ["wsgi.input"].read()]

    def do_lines(self, size, count, environ, fields):
        yield from environ["wsgi.input"]

    def do_unread(self, size, count, environ, fields):
        return [b"u" * size]

    def do_reader(self, size, count, environ, fields):
        """The body is read by another tasklet, which meets the end of the request."""
        view = syncless.current()

        def read():
            self.running += 1
            try:
                environ["wsgi.input"].read()
            except Exception:
                pass
            finally:
                self.running -= 1
            if ended and time.monotonic() - ended[0] > LATE:
                self.wrong.append("who reads the body of a request that has ended is not told")

        ended = []
        view.add_done_callback(lambda view: ended.append(time.monotonic()))
        syncless.spawn(read)
        time.sleep(size % 3 / 1000)
        return [b"r" * min(size, 1000)]

    def do_stays(self, size, count, environ, fields):
        """It waits for as long as its client does."""
        with while_client_stays():
            time.sleep(STAYS)
        return [b"s" * size]

    def do_raise(self, size, count, environ, fields):
        raise LookupError("wanted")

    def do_torn(self, size, count, environ, fields):
        yield b"t" * size
        raise LookupError("wanted, in the middle")

    def do_long(self, size, count, environ, fields):
        fields.append(("Content-Length", str(size)))
        return [b"l" * size, b"more than it said"]

    def do_badhead(self, size, count, environ, fields):
        fields.append(("X-Odd", "a\r\nb"))
        return [b"b" * size]

    def do_fields(self, size, count, environ, fields):
        fields += [(f"X-{i}", "v" * 200) for i in range(8)]
        return [b"f" * size]

    def do_sleep(self, size, count, environ, fields):
        time.sleep(size % 7 / 1000)
        return [b"s" * size]

    def do_errors(self, size, count, environ, fields):
        for _ in range(count):
            environ["wsgi.errors"].write("an application's line\n")
        return [b"e" * size]

    def do_logging(self, size, count, environ, fields):
        for _ in range(count):
            self.logger.info("an application's line, by logging")
        return [b"l" * size]

    def alone(self):
        """In a block that excludes others."""
        self.holders += 1
        if self.holders != 1:
            self.wrong.append("a lock is held twice")
        time.sleep(0.001)
        self.holders -= 1

    def do_lock(self, size, count, environ, fields):
        with self.lock:
            try:
                self.alone()
            finally:
                self.holders = 0
        return [b"l" * size]

    def do_timed(self, size, count, environ, fields):
        """A lock that is not waited for long."""
        if self.lock.acquire(timeout=size % 7 / 2000):
            try:
                time.sleep(size % 3 / 1000)
            finally:
                self.lock.release()
        return [b"t" * size]

    def do_reentrant(self, size, count, environ, fields):
        with self.reentrant, self.reentrant:
            time.sleep(0.0005)
        return [b"r" * size]

    def do_condition(self, size, count, environ, fields):
        with self.condition:
            self.condition.notify(count)
            self.condition.wait(0.01)
        return [b"c" * size]

    def do_queue(self, size, count, environ, fields):
        for _ in range(count):
            try:
                if size % 2:
                    self.items.put(size, timeout=0.005)
                else:
                    self.items.get(timeout=0.005)
            except (queue.Empty, queue.Full):
                pass
        return [b"q" * size]

    def do_thread(self, size, count, environ, fields):
        found = []
        threads = [threading.Thread(target=found.append, args=(i,)) for i in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return [b"t" * size] if sorted(found) == [*range(count)] else [b"threads were lost"]

    def do_file(self, size, count, environ, fields):
        with tempfile.TemporaryFile(dir=self.folder) as file:
            file.write(b"f" * size)
            file.seek(0)
            return [file.read()]

    def do_database(self, size, count, environ, fields):
        with self.lock:
            self.database.execute("insert into visits values (?)", (size,))
            (found,) = self.database.execute("select max(size) from visits").fetchone()
        return [b"d" * size] if found >= size else [b"a row was lost"]

    def do_imports(self, size, count, environ, fields):
        """A module of which several requests are the first user."""
        name = f"simulated_{self.imported // 3 % MODULES}"
        self.imported += 1
        module = importlib.import_module(name)
        return [b"i" * size] if name == module.VALUE else [b"another module"]

    # -- ASGI ----------------------------------------------------------------------------------------------

    async def asgi(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        self.running += 1
        try:
            if scope["type"] == "websocket":
                await self.speak(receive, send)
            else:
                await self.answer(scope, receive, send)
        finally:
            self.running -= 1

    async def speak(self, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            known = {key: message[key] for key in ("text", "bytes") if message.get(key) is not None}
            await send({"type": "websocket.send", **known})

    async def answer(self, scope, receive, send):
        query = dict(parse_qsl(scope["query_string"].decode()))
        size, count = int(query.get("size", 10)), int(query.get("count", 3))
        view = scope["path"].removeprefix("/asgi").split("/")[1]
        fields = [(b"x-is", query.get("is", "").encode())]
        start = {"type": "http.response.start", "status": 200, "headers": fields}
        if view == "raise":
            raise LookupError("wanted")
        if view in ("echo", "lines"):
            body, more = b"", True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body, more = body + message.get("body", b""), message.get("more_body", False)
            await send(start)
            await send({"type": "http.response.body", "body": body})
            return
        if view == "stays":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if view in IN_THREADS:
            body = b"".join(await asyncio.to_thread(getattr(self, "do_" + view), size, count, {}, []))
        else:
            size = max(size, 100) if view == "endless" else size
            body = LETTERS.get(view, view[:1].encode() or b"-") * size
        if view == "sleep":
            await asyncio.sleep(size % 7 / 1000)
        await send(start)
        if view in ("parts", "endless"):
            while count or view == "endless":
                count -= 1
                await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.sleep(0.01)
            body = b""
        if view == "torn":
            await send({"type": "http.response.body", "body": body, "more_body": True})
            raise LookupError("wanted, in the middle")
        await send({"type": "http.response.body", "body": body})


class Counted:
    """A response's parts, whose call ends when the server closes them."""

    def __init__(self, application, parts):
        self.application, self.parts = application, parts

    def __iter__(self):
        return self.parts

    def close(self):
        if self.parts is None:
            self.application.wrong.append("close() of a response was called twice")
            return
        parts, self.parts = self.parts, None
        try:
            parts.close()
        finally:
            self.application.running -= 1
