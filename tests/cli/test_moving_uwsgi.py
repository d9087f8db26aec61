"""docs/moving/uwsgi.md: our options and limits exist, and so do those of uWSGI, waitress and mod_wsgi."""

import dataclasses
import inspect
import pathlib
import re
import shutil
import subprocess

import pytest

from syncless.cli.arguments import make_parser, parse
from syncless.server.arguments import ServerOptions
from syncless.wsgi import Limits, serve

PAGE = (pathlib.Path(__file__).parent.parent.parent / "docs" / "moving" / "uwsgi.md").read_text()
OPTIONS = {name for action in make_parser()._actions for name in action.option_strings}
LIMITS = {field.name for field in dataclasses.fields(Limits)}


def rows(heading):
    """The rows of the table below a heading, each as lists of the code in its cells."""
    text = re.search(rf"^##+ {heading}$(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    return [[re.findall(r"`([^`]+)`", cell) for cell in line[1:-1].split("|")] for line in lines]


def column(heading, number):
    return [code for row in rows(heading) for code in row[number]]


def helped(*command):
    """The text of a command's --help; a skip where there is no such command."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60).stdout


def test_our_options_and_limits_of_the_page_exist():
    ours = [code for heading, number in (("Options", 1), ("mod_wsgi", 2)) for code in column(heading, number)]
    named = {word for code in ours for word in code.split() if word.startswith("--")}
    assert len(named) > 20 and named <= OPTIONS
    limits = dict(re.findall(r"`--limit (\w+)=(\w+)`", PAGE))
    assert len(limits) > 8 and limits.keys() <= LIMITS
    # a number that stands there is the default
    known = {name: float(value) for name, value in limits.items() if value.isdigit()}
    known.pop("request_seconds", None)  # an example
    assert known == {name: getattr(Limits, name) for name in known}


def test_our_arguments_beside_those_of_waitress_exist():
    words = " ".join(column("waitress", 1))
    named = set(re.findall(r"\b([a-z]+_[a-z]+)\b|^(\w+)$|(\w+)=", words))
    named = {name for names in named for name in names if name} - {"client_gone"}
    assert len(named) > 8 and named <= LIMITS | set(ServerOptions.__annotations__) | set(
        inspect.signature(serve).parameters
    )


def test_all_settings_of_waitress_are_in_the_table():
    adjustments = pytest.importorskip("waitress.adjustments", reason="waitress is not installed")
    known = {name for name, _ in adjustments.Adjustments._params}
    assert set(column("waitress", 0)) == known


def test_options_of_uwsgi_in_the_table_exist():
    text = helped("uwsgi")
    named = {code.partition(" ")[0] for code in column("Options", 0)} - {"uwsgi_pass"}
    plugins = {"gevent", "asyncio", "json", *(name for name in named if name.startswith("-"))}
    assert not [name for name in named - plugins if not re.search(rf"--{name}\b(?!-)", text)]


def test_options_of_mod_wsgi_express_in_the_table_exist():
    text = helped("mod_wsgi-express", "start-server")
    named = {code for code in column("mod_wsgi", 1) if code.startswith("-")}
    assert len(named) > 10 and not [name for name in named if f"\n  {name} " not in text]


def test_configuration_and_command_of_the_page_are_understood(tmp_path):
    toml = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1]
    (tmp_path / "syncless.toml").write_text(toml)
    options = parse(["--config", str(tmp_path / "syncless.toml")])
    assert options.application == "myproject.wsgi:application" and options.workers == 4
    command = re.search(r"^syncless (myproject(?:.*\\\n)*.*)", PAGE, re.MULTILINE)[1]
    options = parse(command.replace("\\\n", " ").split())
    assert options.workers == 4 and options.trusted == ["unix"] and options.user == "www-data"
