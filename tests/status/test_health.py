"""--health: the health checks alone, for probes of other machines; and what --status-public says."""

import os
import signal
import urllib.error
import urllib.request

import pytest

from syncless.server.status.options import StatusOptions
from tests.programs import free_port
from tests.supervised import Program
from tests.waiting import eventually

both = pytest.mark.parametrize("workers", ["0", "1"])
HELLO = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"found"]
"""
ASGI = """
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"found"})
"""


def ask(url, **fields):
    """(status, text)"""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=fields), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def run(tmp_path):
    """run(options, code) -> a Program, which is ended at the end."""
    running = []

    def begin(*options, code=HELLO):
        (tmp_path / "app.py").write_text(code)
        running.append(Program(tmp_path, [*options]))
        return running[-1]

    yield begin
    for program in running:
        program.end()


@both
def test_address_of_health_checks_has_nothing_else(run, workers):
    port = free_port()
    program = run("--health", f"0.0.0.0:{port}", "--workers", workers, "--limit", "stop_delay_seconds=60")
    url = f"http://127.0.0.1:{port}"
    assert eventually(lambda: ask(f"{url}/readyz") == (200, "ok\n"))
    assert ask(f"{url}/livez", Host="myproject.cluster.local") == (200, "ok\n")
    for path in ("", "/", "/status.json", "/events", "/metrics", "/livez/", "/readyz?full"):
        status, text = ask(url + path)
        assert (status, text) == (
            (200, "ok\n") if "?" in path else (404, "The paths here are /livez /readyz\n")
        )
    os.kill(program.process.pid, signal.SIGTERM)
    assert eventually(lambda: ask(f"{url}/readyz") == (503, "no\n"))
    assert ask(f"{url}/livez")[0] == 200 == ask(f"http://127.0.0.1:{program.port}/")[0]
    os.kill(program.process.pid, signal.SIGTERM)


@both
@pytest.mark.parametrize("code", [HELLO, ASGI], ids=["wsgi", "asgi"])
@pytest.mark.parametrize("below", ["/", "/internal/health"])
def test_health_checks_at_a_path_of_the_main_addresses(run, workers, below, code):
    program = run("--health", below, "--workers", workers, "-l", "stop_delay_seconds=60", code=code)
    url, path = f"http://127.0.0.1:{program.port}", below.rstrip("/")
    assert eventually(lambda: ask(f"{url}{path}/readyz") == (200, "ok\n"))
    assert ask(f"{url}{path}/livez") == (200, "ok\n")
    assert ask(f"{url}/") == ask(f"{url}/status.json") == ask(f"{url}{path}/else") == (200, "found")
    os.kill(program.process.pid, signal.SIGTERM)
    assert eventually(lambda: ask(f"{url}{path}/readyz") == (503, "no\n"))
    assert ask(f"{url}{path}/livez") == (200, "ok\n") and ask(f"{url}/") == (200, "found")
    os.kill(program.process.pid, signal.SIGTERM)


@pytest.mark.parametrize("text", ["nowhere", "https://127.0.0.1:1", "127.0.0.1:99999"])
def test_wrong_address_is_told(text):
    with pytest.raises(ValueError, match="address"):
        StatusOptions.of(None, health=text)


@pytest.mark.parametrize("options", [(None,), ("127.0.0.1:1", "unix:/m"), ("unix:/s", "[::1]:1")])
def test_local_addresses_are_no_reason_to_warn(options):
    assert StatusOptions.of(*options, public=True, health="0.0.0.0:1").warning == ""


@both
def test_public_status_warns_at_the_start(run, workers, tmp_path):
    log = tmp_path / "log"
    port = free_port()
    options = ("--status", f"0.0.0.0:{port}", "--status-public", "--error-log", str(log))
    run(*options, "--workers", workers)
    said = f"[WARNING] --status-public: anyone who reaches 0.0.0.0:{port} sees request paths"
    assert eventually(lambda: log.exists() and log.read_text().count(said) == 1)
