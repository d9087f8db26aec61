"""Questions of an application about the client of the request that it is answering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from syncless._core.current import current
from syncless.wsgi.application import WSGIExchange


def current_request() -> WSGIExchange:
    """The request in whose tasklet this is called; it can be handed to other tasklets. RuntimeError
    elsewhere."""
    request = current()
    if not isinstance(request, WSGIExchange):
        raise RuntimeError(
            "no request runs in this tasklet; call current_request() in the request's own and hand it over"
        )
    return request


def client_gone() -> bool:
    """Whether the client of this request has closed its connection, or at least sends no more. Also
    ``environ["syncless.client_gone"]``."""
    return current_request().client_gone


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
