"""Trace and profile functions under the patch: those of threads that are tasklets, and of requests."""

import sys
import types

import pytest

from tests.programs import run_python

PATCHED = """
from syncless.patches import patch_all
patch_all()
import sys, threading, time
def tracer(seen):
    def trace(frame, event, argument):
        if frame.f_code.co_filename == "<string>" and frame.f_code.co_name != "trace":
            seen.append((frame.f_code.co_name, event))
        return trace
    return trace
def step():
    return 1
def calls(seen, name="step"):
    return seen.count((name, "call"))
"""


@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_threads_have_what_threading_says_and_main_its_own(kind):
    program = f"""{PATCHED}
main, other = [], []
threading.set{kind}(tracer(other))
sys.set{kind}(tracer(main))
def work():
    time.sleep(0.01)
    step()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
step()
sys.set{kind}(None)
print(calls(main), calls(main, "work"), calls(other), calls(other, "work"))
"""
    assert run_python(program) == "1 0 3 3\n"


def test_threads_of_the_lower_module_begin_without():
    program = f"""{PATCHED}
import _thread
seen, ended = [], threading.Event()
threading.settrace(tracer(seen))
def work():
    step()
    ended.set()
_thread.start_new_thread(work, ())
ended.wait()
print(calls(seen))
"""
    assert run_python(program) == "0\n"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="of Python 3.12")
@pytest.mark.parametrize("kind", ["trace", "profile"])
def test_one_function_can_be_set_in_all_threads(kind):
    program = f"""{PATCHED}
seen, go = [], threading.Event()
def work():
    go.wait()
    step()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
time.sleep(0)
threading.set{kind}_all_threads(tracer(seen))
go.set()
for thread in threads: thread.join()
step()
threading.set{kind}_all_threads(None)
step()
late = threading.Thread(target=step)
late.start()
late.join()
print(calls(seen))
"""
    assert run_python(program) == "4\n"


def test_functions_in_the_place_of_those_in_c_are_not_seen():
    """A debugger that steps into time.sleep() goes on at the next line."""
    program = f"""{PATCHED}
import os, select
seen = []
def all_of_it(frame, event, argument):
    seen.append(frame.f_code.co_name)
    return all_of_it
def work():
    time.sleep(0.001)
    reading, writing = os.pipe()
    os.write(writing, b"x")
    select.select([reading], [], [], 1)
    os.read(reading, 1)
    step()
sys.settrace(all_of_it)
work()
sys.settrace(None)
print(*dict.fromkeys(seen))
"""
    assert run_python(program) == "work step\n"


REQUESTS = """
import sys, threading, urllib.request
from syncless import run_in_thread
from syncless.wsgi import Server
def tracer(seen):
    def trace(frame, event, argument):
        if frame.f_code.co_name in ("step", "other"):
            seen.append((frame.f_code.co_name, event))
        return trace
    return trace
def step():
    return 1
def other():
    return 1
def get(server, path):
    return run_in_thread(lambda: urllib.request.urlopen(f"http://127.0.0.1:{server.address[1]}{path}").read())
"""


def test_request_that_sets_a_function_leaves_it_to_no_other():
    program = f"""{REQUESTS}
seen = []
def app(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/set":
        sys.settrace(tracer(seen))
        step()
    else:
        other()
    return [repr(sys.gettrace() is None).encode()]
with Server(app, port=0) as server:
    print(*[get(server, path).decode() for path in ["/set", "/", "/set", "/"]])
print(seen.count(("step", "call")), seen.count(("other", "call")))
"""
    assert run_python(program) == "False True False True\n2 0\n"


def test_requests_begin_with_what_threading_says():
    program = f"""{REQUESTS}
seen = []
def app(environ, start_response):
    start_response("200 OK", [])
    step()
    return [b""]
async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    await receive()
    step()
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    other()
    await send({{"type": "http.response.body", "body": b""}})
threading.settrace(tracer(seen))
for each in app, asgi:
    with Server(each, port=0) as server:
        for _ in range(3): get(server, "/")
print(seen.count(("step", "call")), seen.count(("other", "call")))
"""
    assert run_python(program) == "6 3\n"


def test_debugger_in_an_asgi_request_follows_it_over_await_and_no_other():
    program = f"""{REQUESTS}
import asyncio
seen, stopped = [], asyncio.Event()
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["path"] == "/set":
        sys.settrace(tracer(seen))
        stopped.set()
        await asyncio.sleep(0.05)
        step()
        sys.settrace(None)
    else:
        await asyncio.sleep(0.01)
        other()
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b"x"}})
import syncless
with Server(app, port=0) as server:
    both = [syncless.spawn(get, server, path) for path in ["/set", "/", "/"]]
    syncless.join_all(both)
print(seen.count(("step", "call")), seen.count(("other", "call")))
"""
    assert run_python(program) == "1 0\n"


def test_a_debugger_finds_a_thread_for_each_request_and_task():
    """It looks up its number among threading's, inside of its trace function."""
    program = f"""{PATCHED}{REQUESTS}
import asyncio, gc
seen = []
def look(frame, event, argument):
    if frame.f_code.co_name in ("app", "task"):
        found = threading._active.get(threading.get_ident())
        seen.append((frame.f_code.co_name, found))
        assert found is threading.current_thread()
    return look
def app(environ, start_response):
    start_response("200 OK", [])
    return [b""]
async def task():
    await asyncio.sleep(0)
    return threading.current_thread() is threading.main_thread()
async def both():
    return await asyncio.gather(task(), task())
before = threading.active_count()
threading.settrace(look)
with Server(app, port=0) as server:
    get(server, "/")
is_main = asyncio.run(both())
threading.settrace(None)
for name in ("app", "task"):
    print(name, len({{thread for place, thread in seen if place == name}}), end=" ")
seen.clear()
gc.collect()
print(is_main, threading.active_count() - before)
"""
    assert run_python(program) == "app 1 task 2 [True, True] 0\n"


@pytest.mark.skipif(not hasattr(types, "LazyImportType"), reason="lazy imports came with Python 3.15")
def test_threads_use_a_lazy_import_together(tmp_path):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.01)\nVALUE = 4\n")
    program = f"""{PATCHED}
sys.path.insert(0, {str(tmp_path)!r})
lazy import slow_to_import
values = []
threads = [threading.Thread(target=lambda: values.append(slow_to_import.VALUE)) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(values)
"""
    assert run_python(program) == "[4, 4, 4]\n"
