"""A request with the same head as the last one of its connection gets the same scope, unless the application
has changed it or still has it."""

import pytest

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


def test_same_head_has_the_same_scope(start):
    scopes = []
    client = start.client(start(application(scopes, lambda scope: None, [])))
    for path in ("/", "/", "/", "/", "/a", "/a", "/a", "/"):
        assert client.get(path)[0] == 200
    assert scopes[2] == scopes[3]
    assert [words for _, words in scopes[4:7]] == [scopes[4][1]] * 3
    assert scopes[7][1] == scopes[0][1] != scopes[4][1]


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_request_sees_nothing_of_what_was_done_to_the_scope_before_it(start, touch):
    scopes = []
    client = start.client(start(application(scopes, touch, [])))
    for _ in range(5):
        assert client.get()[0] == 200
    assert {words for _, words in scopes} == {scopes[0][1]}
    assert len(set(map(id, kept))) == len(kept)
    kept.clear()


def test_request_sees_what_the_application_has_added_to_the_state(start):
    scopes, shared = [], []
    client = start.client(start(application(scopes, lambda scope: None, shared)))
    for number in range(4):
        shared[0]["number"] = number
        client.get()
        assert f"'number': {number}" in scopes[-1][1]
