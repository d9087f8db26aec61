"""Options are described once (server/options.py): a command writes the signatures of `serve` and `Server`;
the command line, the files, the environment, the help and the reference are made from it."""

import inspect

import pytest

from scripts.docs import options as writer
from scripts.docs import reference
from syncless.cli.arguments import make_parser, parse
from syncless.cli.serving import arguments_of
from syncless.server import options
from syncless.server.options import ALL, PROGRAM, ROWS, SERVER, Option
from syncless.wsgi import Server, serve


def test_command_writes_what_is_there():
    for path, text in writer.written().items():
        assert path.read_text() == text, f"{path.name}; run: python -m scripts.docs.options"


@pytest.mark.parametrize(("where", "function"), [(SERVER, Server), (PROGRAM, serve)])
def test_default_of_the_command_is_that_of_the_argument(where, function):
    """An empty one counts as None."""
    parameters = inspect.signature(function).parameters
    rows = writer.of(where, options.APPLICATION)
    assert len(rows) > 15
    for row in rows:
        assert (parameters[row.name].default or None) == (row.default or None), row.name


def test_new_option_needs_its_description_only(monkeypatch, tmp_path, capsys):
    new = Option("wander_seconds", 7, "SECONDS", read=int, text="how long it may wander", type="float")
    monkeypatch.setitem(options.OPTIONS, "proxies", (*options.OPTIONS["proxies"], new))
    ALL.append(new)
    ROWS.append(new)
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
        written = {path.name: text for path, text in writer.written().items()}
        assert "        wander_seconds: float = 7,\n        **overrides" in written["server.py"]
        assert "    - `wander_seconds` (seconds): how long it may wander.\n" in written["serve.py"]
        assert written["arguments.py"].endswith("    wander_seconds: float\n")
    finally:
        ALL.remove(new)
        ROWS.remove(new)
