"""What tests need, and a build or a machine may lack. Each reason says how it is had."""

import importlib.util

import pytest

HTTP2 = pytest.mark.skipif(
    importlib.util.find_spec("syncless.http.http2.session") is None,
    reason="built without HTTP/2: install libnghttp2-dev, and build again",
)


def module(name, use):
    """Skips where the module is not installed, without importing it into this process: some of them cannot be
    patched afterwards."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{use}: pip install {name}")
