"""A factory, or a class, in the place of an application is refused at the start, with what to write."""

import functools
import subprocess

import pytest

from syncless.apps.loading import ApplicationNotFound
from syncless.server.kinds import as_host
from tests.cli.test_loading import command, environment


def app(environ, start_response):
    start_response("200 OK", [])
    return [b"found"]


async def asgi(scope, receive, send):
    pass


def create_app():
    return app


def create_with_options(config=None, testing=False):
    return app


def create_by_name(*, config=None):
    return asgi


def create_with_arguments(config):
    return app


async def create_async():
    return asgi


def asgi_without_async(scope, receive, send):
    return asgi(scope, receive, send)


def anything(*args, **more):
    return app(*args, **more)


@functools.wraps(app)
def wrapped(*args):
    return app(*args)


class Application:
    def __call__(self, environ, start_response):
        return app(environ, start_response)

    def view(self, environ, start_response):
        return app(environ, start_response)

    def create(self):
        return app


class ASGIApplication:
    async def __call__(self, scope, receive, send):
        pass


class WithArguments(Application):
    def __init__(self, name, folder=None):
        pass


class Webpy:
    def wsgifunc(self):
        return app


class Other:
    pass


class Iterated:
    """As PEP 3333 has it."""

    def __init__(self, environ, start_response):
        start_response("200 OK", [])

    def __iter__(self):
        yield b"found"


class Made:
    def __new__(cls, environ, start_response):
        return app(environ, start_response)


class Endpoint:
    """As Starlette's HTTPEndpoint."""

    def __init__(self, scope, receive, send):
        pass

    def __await__(self):
        yield


instance, made_by = Application(), Application().create
configured = functools.partial(create_with_arguments, "production")
nameless = lambda: app  # noqa: E731
PARENTHESES = "write {0}() instead of {0}, or add --factory"
AFTER = "it needs no argument, so it is a factory; write () after its name, or add --factory"
REFUSED = {
    **dict.fromkeys(
        ("create_app", "create_with_options", "create_by_name"),
        "it needs no argument, so it is a factory; " + PARENTHESES,
    ),
    "made_by": "it needs no argument, so it is a factory; write create() instead of create, or add --factory",
    "configured": AFTER,
    "nameless": AFTER,
    "create_async": "it needs no argument, so it is a factory, which must not be async; write a function "
    "without async that returns the application",
    "create_with_arguments": "it cannot be called with (environ, start_response); if it is a factory, write "
    "the call with its arguments: 'module:create_app(\"production\")'",
    "asgi_without_async": "it cannot be called with (environ, start_response); if it is an ASGI application, "
    "add --interface asgi",
    **dict.fromkeys(
        ("Application", "ASGIApplication", "Webpy"),
        "it is a class, and its instances are applications; " + PARENTHESES,
    ),
    "WithArguments": "it is a class, and its instances are applications; serve one: "
    "'module:WithArguments(...)' with literals as arguments",
    **dict.fromkeys(
        ("Other", "dict", "ValueError"),
        "it is a class, and its instances are no applications, because they cannot be called",
    ),
}
SERVED = ("app", "asgi", "anything", "wrapped", "instance", "instance.view", "Iterated", "Made", "Endpoint")
CALLS = {
    "app()": "missing a required argument: 'environ'; if it is the application itself, leave out () and",
    "asgi()": "missing a required argument: 'scope'; if it is the application itself, leave out () and",
    "create_with_arguments()": "missing a required argument: 'config'; write its arguments, which are",
    "create_app(1)": "too many positional arguments; write its arguments, which are",
    "create_async()": "is an async function; a factory must not be async: write one that returns",
    "PARENTHESES()": "is not a function that returns the application, but 'write",
}


@pytest.mark.parametrize("name", REFUSED)
def test_thing_that_makes_an_application_is_refused_with_what_to_write(name):
    thing = {"dict": dict, "ValueError": ValueError}.get(name) or globals()[name]
    with pytest.raises(TypeError) as refused:
        as_host(thing)
    assert str(refused.value).endswith(": " + REFUSED[name].format(name))


@pytest.mark.parametrize("name", SERVED)
def test_application_is_served_whatever_its_form(name):
    assert as_host(f"{__name__}:{name}").__class__.__name__ == (
        "ASGIHost" if name in ("asgi", "Endpoint") else "WSGIHost"
    )


@pytest.mark.parametrize("call", CALLS)
def test_call_of_something_else_than_a_factory_is_refused_with_what_to_write(call):
    with pytest.raises(ApplicationNotFound) as refused:
        as_host(f"{__name__}:{call}")
    assert CALLS[call] in str(refused.value)


@pytest.mark.parametrize("options", [(), ("--check",), ("--check", "--workers", "1"), ("--workers", "1")])
def test_command_ends_at_once_if_it_is_given_a_factory(tmp_path, options):
    (tmp_path / "shop.py").write_text("def create_app():\n    pass\n")
    done = subprocess.run(
        command("--bind", "127.0.0.1:0", "shop:create_app", *options),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == (3 if options == ("--workers", "1") else 2)  # the worker has imported it
    assert "shop:create_app: cannot serve <function" in done.stderr
    assert done.stderr.endswith("write create_app() instead of create_app, or add --factory\n")


@pytest.mark.parametrize("name", ["flask:Flask", "fastapi:FastAPI", "starlette.applications:Starlette"])
def test_class_of_a_framework_is_refused(name):
    pytest.importorskip(name.partition(".")[0].partition(":")[0])
    with pytest.raises(TypeError, match="it is a class, and its instances are applications"):
        as_host(name)
