"""Helpers that the tests of name lookups share; the fixtures are in conftest.py."""

import json
import os
import pathlib
import shutil
import socket as standard
import subprocess
import sys
import time

import pytest

import syncless
from syncless.io import dns
from syncless.io.dns import system

ROOT = pathlib.Path(__file__).parent.parent.parent
STREAM = standard.SOCK_STREAM
HOSTS = """127.0.0.1 localhost
::1 localhost ip6-localhost
192.0.2.99 inhosts.example alias1 alias2 # a comment commented
# 192.0.2.98 commented
192.0.2.91 twice.example
192.0.2.92 twice.example second
2001:db8::99 sixonly.example
  192.0.2.93\t padded.example
"""


class Files:
    """hosts, nsswitch.conf and resolv.conf in a folder of the test."""

    def __init__(self, folder):
        self.folder = folder
        self.write(
            hosts=HOSTS,
            nsswitch="hosts: files dns\n",
            resolv="nameserver 127.0.0.1\nsearch corp.example\noptions timeout:1\n",
        )

    def write(self, **texts):
        for name, text in texts.items():
            path = self.folder / name
            path.write_text(text)
            os.utime(path, ns=(time.time_ns(), time.time_ns()))
        time.sleep(system.LOOK_SECONDS * 1.1)

    def configure(self, port):
        dns.configure(
            hosts=str(self.folder / "hosts"),
            nsswitch=str(self.folder / "nsswitch"),
            resolv_conf=str(self.folder / "resolv"),
            port=port,
        )


def addresses(name, *more):
    return sorted(row[4][0] for row in dns.getaddrinfo(name, 80, *(more or (0, STREAM))))


def fails(name, code, *more):
    with pytest.raises(standard.gaierror) as told:
        dns.getaddrinfo(name, 80, *(more or (0, STREAM)))
    return told.value.errno == code and bool(told.value.strerror)


def compared_with_the_c_library(folder, nsswitch, resolv, *more):
    """The output of compare_names.py with these files in place of /etc's; `more` are its other arguments."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a name server on port 53 and files of /etc of its own need root and unshare")
    for name, text in {"hosts": HOSTS, "nsswitch.conf": nsswitch, "resolv.conf": resolv}.items():
        (folder / name).write_text(text)
    command = [
        "unshare",
        "--mount",
        "--net",
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.io.compare_names",
        str(folder),
        *more,
    ]
    done = syncless.run_in_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip().splitlines()[-1]}")
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
