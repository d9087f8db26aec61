"""`--self-cure`: a C function that has blocked the loop three times runs in OS threads from then on."""

import _thread
import bisect
import sys

import pytest

import syncless
from syncless.patches import patch_offload, unpatch
from syncless.tools.blockers import HELD, Stall
from tests.waiting import eventually

PATH = "_bisect.bisect_right"
FRAMES = [("compute", "/lib/python/cv2.cpython-311.so")]

pytestmark = pytest.mark.skipif(sys.version_info < (3, 10), reason="its functions call back")


@pytest.fixture
def unpatched():
    yield
    unpatch()


def stall(path=PATH, frames=FRAMES):
    return Stall(0.3, "", "app.py:1 in app()", list(frames), callee=path)


def stalls(server, *found):
    """They are told by another thread, as they begin and end."""

    def tell():
        for each in found:
            server.self_cure.note(each, False)
            server.self_cure.note(each, True)

    syncless.run_in_thread(tell)


def thread_of_call():
    threads = []
    bisect.bisect_right([1], 1, key=lambda item: threads.append(_thread.get_native_id()) or item)
    return threads.pop()


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]


def test_function_is_offloaded_after_its_third_stall(start, errors, unpatched):
    server = start(app, self_cure=True, error_log=errors)
    stalls(server, stall(), stall("zlib.crc32"), stall())
    syncless.sleep(0.01)
    assert thread_of_call() == _thread.get_native_id() and server.self_cure.cures == []
    stalls(server, stall())
    assert eventually(lambda: server.self_cure.cures)
    assert syncless.spawn(thread_of_call).join() != _thread.get_native_id()
    (cure,) = server.self_cure.cures
    assert cure["function"] == PATH and cure["stalls"] == 3
    assert cure["configuration"] == '[patch]\noffload = ["_bisect.bisect_right"]'
    assert f"{PATH}() has blocked all other requests 3 times: from now on it runs in OS threads" in (
        errors.getvalue()
    )


def test_call_that_keeps_the_original_is_told_once(start, errors, unpatched):
    patch_offload(PATH)
    assert stall().cure == HELD.format(PATH)
    server = start(app, self_cure=True, error_log=errors)
    stalls(server, *(stall() for _ in range(6)))
    assert eventually(lambda: "this call has kept the original" in errors.getvalue())
    syncless.sleep(0.01)
    assert errors.getvalue().count("has blocked all other requests") == 1 and server.self_cure.cures == []


def test_function_that_cannot_be_offloaded_is_told(start, errors, unpatched):
    server = start(app, self_cure=True, error_log=errors)
    stalls(server, *(stall("bisect.missing") for _ in range(3)))
    assert eventually(lambda: "and cannot be offloaded: " in errors.getvalue())
    assert server.self_cure.cures == []


def test_what_another_fix_helps_is_not_offloaded(start, errors):
    """A computation in Python, a wait that patch_native() makes cooperative, a stack that cannot be read."""
    server = start(app, self_cure=True, error_log=errors)
    wait = [("poll", "/lib/libc.so.6"), (None, "/lib/libmariadb.so.3")]
    for frames in ([], wait):
        stalls(server, *(stall(frames=frames) for _ in range(4)))
    stalls(server, *(Stall(0.3, "", "", None) for _ in range(4)))
    syncless.sleep(0.01)
    assert errors.getvalue() == "" and server.self_cure.cures == []


def test_without_the_option_nothing_watches(start):
    assert start(app).self_cure is None
