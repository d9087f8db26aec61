"""Options are described once (server/options.py): the signatures of `serve` and `Server` agree with it, and
the command line, the files, the environment, the help and the reference are made from it."""

import inspect

import pytest

from scripts.docs import reference
from syncless.cli.arguments import make_parser, parse
from syncless.cli.serving import arguments_of
from syncless.server import kinds, options
from syncless.server.options import ALL, APPLICATION, CALLS_ONLY, PROGRAM, SERVER, Option
from syncless.wsgi import Server, serve


def described(*where):
    return {each.name: each.default or None for each in (*ALL, *CALLS_ONLY) if each.where in where}


def written(function):
    """The arguments by name only, and their defaults; an empty one counts as None."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default or None for each in parameters if each.kind is each.KEYWORD_ONLY}


def test_signatures_have_the_options_and_their_defaults():
    assert written(Server.__init__) == described(APPLICATION, SERVER)
    assert written(serve) == described(APPLICATION, PROGRAM)


def test_docstring_of_serve_has_each_argument():
    for name in described(SERVER, APPLICATION, PROGRAM):
        assert name == "multiprocess" or f"`{name}`" in serve.__doc__, name  # which the master sets


def test_choices_are_those_of_the_applications():
    choices = {each.name: each.choices for each in ALL if each.where == APPLICATION}
    assert choices == {"interface": kinds.INTERFACES, "lifespan": kinds.LIFESPANS, "root_path": None}


def test_new_option_needs_its_description_only(monkeypatch, tmp_path, capsys):
    new = Option("wander_seconds", 7, "SECONDS", read=int, text="how long it may wander")
    monkeypatch.setitem(options.OPTIONS, "proxies", (*options.OPTIONS["proxies"], new))
    ALL.append(new)
    try:
        path = tmp_path / "syncless.toml"
        path.write_text("wander_seconds = 8\n")
        command = ["app:app", "--config", str(path)]
        assert parse(["app:app"]).wander_seconds == 7
        assert arguments_of(parse(command), SERVER)["wander_seconds"] == 8
        monkeypatch.setenv("SYNCLESS_WANDER_SECONDS", "9")
        assert parse(command).wander_seconds == 9
        assert parse([*command, "--wander-seconds", "10"]).wander_seconds == 10
        assert "--wander-seconds SECONDS how long it may" in " ".join(make_parser().format_help().split())
        assert "| `--wander-seconds SECONDS` | how long it may wander |" in reference.options()
        with pytest.raises(SystemExit):
            parse([*command, "--print-config"])
        assert "wander_seconds = 9  # environment" in capsys.readouterr().out
        assert written(Server.__init__) != described(APPLICATION, SERVER)
    finally:
        ALL.remove(new)
