"""A request with the same head as the last one of its connection gets the same scope, unless the application
has changed it or still has it."""

import functools
import socket

import pytest

from syncless import run_in_thread
from tests.asgi.test_http import saying

pytestmark = pytest.mark.virtual_time

kept = []

TOUCHES = {
    "entry": lambda scope: scope.update(mine=1),
    "entry changed": lambda scope: scope.update(path="/other"),
    "entry gone": lambda scope: scope.pop("extensions"),
    "fields": lambda scope: scope["headers"].append((b"mine", b"1")),
    "field": lambda scope: scope["headers"].__setitem__(0, (b"mine", b"1")),
    "fields gone": lambda scope: scope["headers"].clear(),
    "extensions": lambda scope: scope["extensions"].update(mine={}),
    "state": lambda scope: scope["state"].update(mine=1),
    "state replaced": lambda scope: scope.update(state={"mine": 1}),
    "scope kept": kept.append,
    "fields kept": lambda scope: kept.append(scope["headers"]),
    "extensions kept": lambda scope: kept.append(scope["extensions"]),
    "state kept": lambda scope: kept.append(scope["state"]),
}
TOUCHES_OF_TLS = {
    "tls": lambda scope: scope["extensions"]["tls"].update(mine=1),
    "tls gone": lambda scope: scope["extensions"].pop("tls"),
    "tls kept": lambda scope: kept.append(scope["extensions"]["tls"]),
}


@pytest.fixture
def getter(start):
    """getter(application) -> get(path) on a connection to it."""
    return lambda application: start.client(start(application)).get


@pytest.fixture
def tls_getter(start, https, authority):
    """The same by TLS, in a thread."""

    def getter(application):
        client = start.client(https(application))
        plain = socket.socket(fileno=client.sock.detach())
        plain.settimeout(60)
        context = authority.client_context()
        client.sock = run_in_thread(lambda: context.wrap_socket(plain, server_hostname="localhost"))
        return functools.partial(run_in_thread, client.get)

    return getter


def application(scopes, touch, shared):
    """Notes each scope, by its address and in words, and touches it. `shared`: gets the lifespan's state."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            scope["state"]["started"] = True
            shared.append(scope["state"])
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        scopes.append((id(scope), repr(scope)))
        touch(scope)
        await saying()(scope, receive, send)

    return app


def check_reuse(getter):
    scopes = []
    get = getter(application(scopes, lambda scope: None, []))
    for path in ("/", "/", "/", "/", "/a", "/a", "/a", "/"):
        assert get(path)[0] == 200
    assert scopes[2] == scopes[3]
    assert [words for _, words in scopes[4:7]] == [scopes[4][1]] * 3
    assert scopes[7][1] == scopes[0][1] != scopes[4][1]


def test_same_head_has_the_same_scope(getter):
    check_reuse(getter)


def test_same_head_has_the_same_scope_by_tls(tls_getter):
    check_reuse(tls_getter)


def check_touch(getter, touch):
    scopes = []
    get = getter(application(scopes, touch, []))
    for _ in range(5):
        assert get()[0] == 200
    assert {words for _, words in scopes} == {scopes[0][1]}
    assert len(set(map(id, kept))) == len(kept)
    kept.clear()


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_request_sees_nothing_of_what_was_done_to_the_scope_before_it(getter, touch):
    check_touch(getter, touch)


@pytest.mark.parametrize("touch", TOUCHES_OF_TLS.values(), ids=TOUCHES_OF_TLS)
def test_request_by_tls_sees_nothing_of_it_either(tls_getter, touch):
    check_touch(tls_getter, touch)


def test_request_sees_what_the_application_has_added_to_the_state(start):
    scopes, shared = [], []
    client = start.client(start(application(scopes, lambda scope: None, shared)))
    for number in range(4):
        shared[0]["number"] = number
        client.get()
        assert f"'number': {number}" in scopes[-1][1]
