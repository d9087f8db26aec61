"""`syncless --help`, as somebody reads it in a terminal or through a pipe."""

import dataclasses
import re
import subprocess

import pytest

from syncless.cli.arguments import make_parser
from syncless.cli.help import explained, measure
from syncless.server.options import OPTIONS
from syncless.wsgi import Limits
from tests.cli.terminal import ESCAPE, Terminal
from tests.cli.test_loading import command, environment
from tests.programs import run_unchecked


def piped(option="--help-all", **more):
    done = subprocess.run(
        command(option), env=environment(**more), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def on_terminal(option="--help-all", **more):
    """The command's output on a terminal."""
    with Terminal(command(option), environment(**{"TERM": "xterm", "NO_COLOR": "", **more})) as terminal:
        text = terminal.read()
        assert terminal.process.wait(60) == 0
    return text


def test_options_stand_in_groups_with_an_example_at_the_end():
    text = piped(COLUMNS="80")
    headings = re.findall(r"^(\w[\w ]+):$", text, re.MULTILINE)
    assert headings == [*OPTIONS, "environment", "example"]
    assert text.rstrip().splitlines()[-1].startswith("  syncless myproject.web:app --bind ")
    options = {name for action in make_parser()._actions for name in action.option_strings}
    shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))
    assert {name for name in options if not name.startswith("--no-patch-")} <= shown
    assert all(len(line) <= 80 for line in text.partition("environment:")[0].splitlines())


def test_common_options_stand_on_two_screens():
    text = piped("--help", COLUMNS="80")
    assert len(text.splitlines()) <= 50 and all(len(line) <= 80 for line in text.splitlines())
    assert re.findall(r"^(\w[\w ]+):", text, re.MULTILINE) == ["usage", "common options", "example"]
    assert "-b, --bind ADDRESS" in text and "--help-all" in text and "head_seconds (" not in text
    assert ESCAPE.sub("", on_terminal("--help")) == text


def test_each_limit_is_explained_with_its_default_and_unit():
    text = " ".join(piped(COLUMNS="100").split())
    sentences = explained()
    for field in dataclasses.fields(Limits):
        shown = f"{field.name} ({measure(field.name, field.default)}) {sentences[field.name]}".replace(
            "%%", "%"
        )
        assert shown in text
    assert "head_seconds (30 s) Seconds from" in text and "body_bytes (1 GiB) Maximum bytes" in text


def test_colours_are_for_terminals_only():
    assert not ESCAPE.search(piped(TERM="xterm"))
    coloured = on_terminal()
    assert ESCAPE.search(coloured) and ESCAPE.sub("", coloured) == piped(COLUMNS="80")


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_turned_off(variables):
    assert "\033" not in on_terminal(**variables)


def test_limits_are_shown_where_their_source_is_missing(tmp_path):
    program = (
        "import inspect; inspect.getsource = lambda it: (_ for _ in ()).throw(OSError())\n"
        "import sys; from syncless.cli import main; sys.exit(main(['--help-all']))"
    )
    done = run_unchecked(program, env=environment())
    assert done.returncode == 0 and "head_seconds (30 s)" in done.stdout
