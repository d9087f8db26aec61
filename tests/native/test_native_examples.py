"""examples/native, compiled and served."""

import importlib
import json
import pathlib
import shutil
import sys

import pytest

import syncless
from tests.native.conftest import build_in_place
from tests.waiting import eventually

ROOT = pathlib.Path(__file__).parent.parent.parent


def test_example_of_native_handlers(served, tmp_path, monkeypatch):
    pytest.importorskip("Cython")
    folder = shutil.copytree(ROOT / "examples" / "native", tmp_path / "example")
    build_in_place(folder)
    monkeypatch.syspath_prepend(str(folder))
    example = importlib.import_module("serve")
    client = served.client(served(example.routes(), example.app))
    assert client.get("/hello")[2] == b"Hello, World!"
    _, headers, number = client.get("/fibonacci/1000000")
    assert number == b"1884755131" and headers["content-type"] == "text/plain"
    assert client.get("/fibonacci/1000001")[2] == b"Python answers /fibonacci/1000001\n"
    assert client.get("/numba")[2] in (b"Hello from Numba", b"Python answers /numba\n")
    refreshing = syncless.spawn(example.refresh, 0.01)
    # an earlier test may have published prices of its own
    assert eventually(lambda: b'"at"' in client.get("/prices")[2])
    assert client.get("/prices")[1]["content-type"] == "application/json"
    first = json.loads(client.get("/prices")[2])
    assert eventually(lambda: json.loads(client.get("/prices")[2])["at"] > first["at"])
    refreshing.kill()
    for name in ("serve", "fast"):
        del sys.modules[name]
