"""Functions for applications, about the client of the current request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from syncless._core.current import current
from syncless.apps.wsgi.application import WSGIExchange


def current_request() -> WSGIExchange:
    """Return the request of the calling tasklet; other tasklets may use the result. Raise RuntimeError
    outside a request."""
    request = current()
    if not isinstance(request, WSGIExchange):
        raise RuntimeError(
            "no request runs in this tasklet; call current_request() in the tasklet of the request and "
            "pass the result on"
        )
    return request


def client_gone() -> bool:
    """Return whether the client of this request has closed its connection, or at least its sending side. The
    function is also available as ``environ["syncless.client_gone"]``."""
    return current_request().client_gone


def early_hints(fields: Iterable[tuple[str | bytes, str | bytes]]) -> None:
    """Send a 103 response with these header fields, such as ("Link", "</style.css>; rel=preload; as=style"),
    before the response is ready; an HTTP/1.0 client gets none (RFC 8297). The function is also available as
    ``environ["wsgi.early_hints"]``, as in gunicorn. Raise ValueError for a field that cannot be sent,
    RuntimeError outside the tasklet of a request."""
    current_request().send_early_hints([(_as_bytes(name), _as_bytes(value)) for name, value in fields])


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else text


@contextmanager
def while_client_stays() -> Iterator[None]:
    """Raise ClientGone where this request waits inside the block, as soon as its client closes the
    connection."""
    request = current_request()
    if request.interruptible:  # as a whole, or by a block around this one
        yield
        return
    request.interrupt_when_client_leaves()
    try:
        yield
    finally:
        request.interrupt_when_client_leaves(False)
