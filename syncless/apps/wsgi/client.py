"""Questions of an application about the client of the request that it is answering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from syncless._core.current import current
from syncless.apps.wsgi.application import WSGIExchange


def current_request() -> WSGIExchange:
    """The request in whose tasklet this is called; it can be handed to other tasklets. RuntimeError
    elsewhere."""
    request = current()
    if not isinstance(request, WSGIExchange):
        raise RuntimeError(
            "no request runs in this tasklet; call current_request() in the tasklet of the request and "
            "pass the result on"
        )
    return request


def client_gone() -> bool:
    """Whether the client of this request has closed its connection, or at least sends no more. Also
    ``environ["syncless.client_gone"]``."""
    return current_request().client_gone


def early_hints(fields: Iterable[tuple[str | bytes, str | bytes]]) -> None:
    """Sends a 103 with these header fields, such as ("Link", "</style.css>; rel=preload; as=style"), while
    the response is being made; a client of HTTP/1.0 gets none (RFC 8297). As
    ``environ["wsgi.early_hints"]``, which is its name in gunicorn, too. ValueError: a field that cannot be
    sent. RuntimeError: the tasklet is not the request's."""
    current_request().send_early_hints([(_as_bytes(name), _as_bytes(value)) for name, value in fields])


def _as_bytes(text: str | bytes) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else text


@contextmanager
def while_client_stays() -> Iterator[None]:
    """Raises ClientGone wherever this request waits inside the block, as soon as its client closes the
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
