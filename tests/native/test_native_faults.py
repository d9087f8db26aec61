"""Native handlers that fail: the answer of the client, and the line in the log."""

import gc
import io
import os
import re
import resource

import pytest

from tests.programs import run_unchecked
from tests.waiting import eventually

LINES = {
    "nothing": "returned SYNCLESS_DONE without a response",
    "status": "gave the status 99, which is not between 200 and 599",
    "type": "gave a Content-Type with bytes that a header field cannot have",
    "large": "gave a body of 2147483648 bytes, and 1073741823 is the most: send a file, or pieces",
    "file": "gave a file and other bytes: a response is one or the other",
    "begin": "asked for another step without syncless_begin()",
    "returned": "returned 77",
    "error": "returned -1",
}


@pytest.mark.parametrize("query", LINES)
def test_handler_that_fails_is_a_500_and_a_line_in_the_log(served, query):
    log = io.StringIO()
    client = served.client(served({"/wrong": "wrong"}, error_log=log))
    status, headers, body = client.get(f"/wrong?{query}")
    assert status == 500 and headers["connection"] == "close" and b"The application failed" in body
    assert client.at_end()
    assert eventually(lambda: "\n" in log.getvalue())
    assert log.getvalue().rstrip().endswith(f"[ERROR] the native handler of '/wrong' {LINES[query]}")


def test_many_failures_are_one_line_a_second(served):
    log = io.StringIO()
    server = served({"/wrong": "wrong"}, error_log=log, native_threads=1)
    failed = 0

    def fails_again():
        nonlocal failed
        failed += served.client(server).get("/wrong")[0] == 500
        return log.getvalue().count("\n") >= 2

    assert eventually(fails_again)
    more = re.search(r"; before that, (\d+) more requests have failed", log.getvalue().splitlines()[1])
    assert more and 1 <= int(more[1]) < failed


def test_response_cut_off_in_its_midst_is_told(served, handlers):
    log = io.StringIO()
    client = served.client(served({"/steps": "steps"}, error_log=log))
    client.send(b"GET /steps?1&size=5&length=6 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: "syncless_set_length()" in log.getvalue())


def test_handler_that_crashes_is_seen_by_the_fault_handler_of_python(library):
    program = f"""if True:
    import faulthandler, socket, syncless
    from syncless import native
    from syncless.wsgi import Server
    faulthandler.enable()
    server = Server(lambda e, s: None, port=0, native_threads=1,
                    native={{"/": native.load({str(library)!r}, "wrong")}}).start()
    with socket.create_connection(server.address, timeout=60) as client:
        client.sendall(b"GET /?c HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        syncless.sleep(10)
    """
    done = run_unchecked(program)
    assert done.returncode < 0 and "Fatal Python error: Segmentation fault" in done.stderr


def test_connection_goes_back_to_its_thread_where_no_descriptor_is_left(served):
    client = served.client(served({"/hello": "hello"}))
    assert client.get("/py")[2] == b"python GET /py "
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # those that are open stay
    try:
        assert client.get("/hello")[2] == b"Hello, World!"
        assert client.get("/py")[2] == b"python GET /py "
        assert client.get("/hello")[2] == b"Hello, World!"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_stopped_or_failed_server_keeps_no_descriptor_and_may_be_started_again(served):
    """Whichever descriptor of those that a start makes there is no room for."""

    def descriptors():
        gc.collect()
        return {int(each) for each in os.listdir("/proc/self/fd")}

    before = descriptors()
    server = served({"/hello": "hello"})
    server.stop()
    assert descriptors() == before
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    failures = 0
    for spare in range(12):
        free = [number for number in range(len(before) + 100) if number not in before]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[spare], hard))
        try:
            server.start()
        except OSError:
            failures += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        server.stop()
        assert descriptors() == before, spare
    assert failures > 3
    server.start()
    assert served.client(server).get("/hello")[2] == b"Hello, World!"
