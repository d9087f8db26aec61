"""Where a status server may listen, and what is said to those who ask for something else."""

import socket
import subprocess

import pytest

from syncless.server.status.options import StatusOptions
from tests.cli.test_loading import HELLO, command, environment


@pytest.mark.parametrize(
    "address",
    ["9100", "127.0.0.1:9100", "localhost:9100", "[::1]:9100", "127.1.2.3:0", "unix:/a/b", "fd:3"],
)
def test_status_listens_on_this_machine(address):
    assert StatusOptions.of(address)


@pytest.mark.parametrize(
    "address", [":9100", "0.0.0.0:9100", "*:9100", "[::]:9100", "192.0.2.1:80", "host.example:80"]
)
def test_address_that_others_reach_must_be_meant(address):
    with pytest.raises(ValueError, match="--status-public"):
        StatusOptions.of(address)
    assert StatusOptions.of(address, public=True)


def test_colon_and_port_is_all_addresses_as_for_the_server():
    with pytest.raises(ValueError, match=r"such as 127\.0\.0\.1:9100 .* not ':9100' \(all addresses\);"):
        StatusOptions.of(":9100")
    assert StatusOptions.of(":9100", public=True).status.binds[0].host == "*"
    assert StatusOptions.of(None, ":9100", public=True).metrics.binds[0].host == "*"
    assert StatusOptions.of(None, health=":9100").health.binds[0].host == "*"
    assert StatusOptions.of("9100").status.binds[0].host == "127.0.0.1"


def test_status_speaks_no_tls():
    with pytest.raises(ValueError, match="plain HTTP"):
        StatusOptions.of("https://127.0.0.1:9100")


def test_no_status_is_the_default():
    assert not StatusOptions.of(None)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_address_in_use_is_told_before_anything_is_served(tmp_path, workers):
    (tmp_path / "hello.py").write_text(HELLO)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = subprocess.run(
            command("hello:app", "--bind", "127.0.0.1:0", "--status", port, "--workers", workers),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1 and done.stdout == ""
    assert f"cannot listen on http://127.0.0.1:{port}/" in done.stderr
