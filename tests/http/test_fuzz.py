"""The fuzzer and the soak, briefly; `make fuzz` and `make soak` run them for long."""

import os
import subprocess
import sys

import pytest

import syncless
from tests.fuzz import Fuzzer, Violation, answers

pytestmark = pytest.mark.slow

ROOT = __file__.rsplit("/tests/", 1)[0]


@pytest.mark.realtime("the number of requests in this time is random")
@pytest.mark.parametrize("seed", [1, 2])
def test_two_seconds_of_fuzzing(seed):
    assert Fuzzer(seed).run(2, say=lambda text: None) > 50


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nDate: x\r\n",
        b"HTTP/1.1 299 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\njunk",
    ],
)
def test_the_fuzzer_notices(data):
    with pytest.raises(Violation):
        answers(data, False)


def test_the_fuzzer_notices_what_is_left_behind(reports):
    fuzzer = Fuzzer(1)
    fuzzer.server.census = lambda: {"connections": 1}
    with pytest.raises(Violation, match="left behind"):
        syncless.spawn(fuzzer.run, 0.01, lambda text: None).result()


def soak(*arguments, timeout, env=None):
    pytest.importorskip("trustme", reason="trustme makes the certificates of the soak: pip install trustme")
    pytest.importorskip("syncless.native.threads", reason="native handlers need Linux")
    done = syncless.run_in_thread(
        lambda: subprocess.run(
            [sys.executable, "-m", "tests.soak", "--seconds", "4", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=env,
        )
    )
    assert done.returncode == 0 and "the invariant holds" in done.stdout, done.stdout + done.stderr


@pytest.mark.realtime("the number of requests in this time is random")
def test_soak_test_passes_for_a_few_seconds():
    soak(timeout=60)


@pytest.mark.slow
@pytest.mark.realtime("which requests run when a thread is relieved is random")
def test_takeovers_lose_no_request_and_double_none():
    """In development mode, in which the interpreter checks more."""
    soak("--takeovers", "1000", timeout=170, env={**os.environ, "PYTHONDEVMODE": "1"})
