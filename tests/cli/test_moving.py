"""docs/moving/gunicorn.md: our options exist, and it misses no option of gunicorn, uvicorn or granian. Each
option of these and of others (peers.json) is taken, or answered with a sentence that names what to write."""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from syncless.cli.arguments import make_parser, parse
from syncless.cli.foreign import ACCEPTED, BY_VALUE, TOGETHER
from syncless.cli.peers import INSTEAD
from syncless.wsgi import Limits
from tests.programs import run_unchecked

PAGE = (pathlib.Path(__file__).parent.parent.parent / "docs" / "moving" / "gunicorn.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.partition("## Options")[2].partition("## Signals")[0].splitlines()
    if line.startswith("| ") and "**" not in line
]
COLUMNS = {"gunicorn": 1, "uvicorn": 2, "granian": 3, "others": 4, "syncless": 5}
PEERS = json.loads((pathlib.Path(__file__).parent / "peers.json").read_text())
"""Other servers -> their version and options, as their --help has them, with what stands for a value. Of
uWSGI's only the common ones."""


def named(peer):
    """The options and settings in a column."""
    cells = " ".join(row[COLUMNS[peer]] for row in ROWS)
    return {word for code in re.findall(r"`([^`]+)`", cells) for word in code.split()}


def test_each_row_has_all_columns():
    assert len(ROWS) > 60 and all(len(row) == 6 for row in ROWS), [row for row in ROWS if len(row) != 6]


def test_our_options_in_the_table_exist():
    ours = {name for action in make_parser()._actions for name in action.option_strings}
    assert {name for name in named("syncless") if name.startswith("-")} <= ours


def test_all_our_options_are_in_the_table():
    missing = [
        action.option_strings
        for action in make_parser()._actions
        if action.option_strings
        and "patch" not in action.option_strings[0]
        and not named("syncless") & set(action.option_strings)
    ]
    assert not missing


def test_our_limits_in_the_table_exist():
    known = {field.name for field in dataclasses.fields(Limits)}
    limits = set(re.findall(r"`(?:-l|--limit) (\w+)=", PAGE))
    assert len(limits) > 20 and limits <= known | {"name"}
    values = dict(re.findall(r"`-l (\w+)=(\d+)`", PAGE))
    assert {name: float(value) for name, value in values.items()} == {
        name: getattr(Limits, name) for name in values
    }


def test_commands_of_the_page_are_understood():
    for line in re.findall(r"^syncless (?!--config)(.*?) *(?:#.*)?$", PAGE, re.MULTILINE):
        options = parse(line.split())
        assert options.application == "myproject.wsgi:application" and options.workers == 4


def test_all_settings_of_gunicorn_are_in_the_table():
    config = pytest.importorskip("gunicorn.config", reason="gunicorn is not installed")
    table = named("gunicorn")
    missing = [
        setting.name for setting in config.KNOWN_SETTINGS if not table & {setting.name, *(setting.cli or ())}
    ]
    assert not missing


def test_options_of_gunicorn_in_the_table_exist():
    config = pytest.importorskip("gunicorn.config", reason="gunicorn is not installed")
    known = {name for setting in config.KNOWN_SETTINGS for name in (setting.name, *(setting.cli or ()))}
    wrong = (
        {name for name in named("gunicorn") if name.startswith("-")}
        - known
        - {"-h", "--help", "-v", "--version"}
    )
    assert not wrong


@pytest.mark.parametrize(
    ("peer", "parameters"), [("uvicorn", "uvicorn.main:main"), ("granian", "granian.cli:cli")]
)
def test_all_options_of_others_are_in_the_table(peer, parameters):
    pytest.importorskip(peer, reason=f"{peer} is not installed")
    module, _, name = parameters.partition(":")
    program = (
        f"from {module} import {name} as main; print(*(name for one in main.params for name in one.opts))"
    )
    known = run_unchecked(program, check=True).stdout.split()
    assert {name for name in known if name.startswith("--")} <= named(peer)


def test_foreign_options_are_answered_with_ours(capsys):
    ours = {name for action in make_parser()._actions for name in action.option_strings}
    known = {field.name for field in dataclasses.fields(Limits)}
    for name, instead in INSTEAD.items():
        assert name not in ours
        assert any(name in peer["options"] for peer in PEERS.values()), name
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z0-9-]*", instead)) <= ours
        assert set(re.findall(r"--limit (\w+)=", instead)) <= known
        with pytest.raises(SystemExit):
            parse([name, "5", "app:app"])
        assert f"there is no {name}; " in capsys.readouterr().err


FIELDS = "--trusted-field x-forwarded-for --trusted-field x-forwarded-proto"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("--host 0.0.0.0 --port 5000", "--bind 0.0.0.0:5000"),
        ("--port=5000", "--bind 127.0.0.1:5000"),
        ("--host ::1", "--bind [::1]:8000"),
        ("--uds /run/app.sock", "--bind unix:/run/app.sock"),
        ("--ssl-certfile c --ssl-keyfile=k --ssl-ciphers x", "--certfile c --keyfile k --ciphers x"),
        (
            "--proxy-headers",
            f"--trusted 127.0.0.1 --trusted ::1 {FIELDS}",
        ),
        (
            "--proxy-headers --forwarded-allow-ips 10.0.0.1,10.0.0.2 --trusted-field forwarded",
            "--trusted 10.0.0.1 --trusted 10.0.0.2 --trusted-field forwarded",
        ),
        ("--no-proxy-headers --forwarded-allow-ips=*", ""),
        ("--timeout-keep-alive 5 --max-requests=9", "--limit idle_seconds=5 --limit worker_requests=9"),
        ("--pythonpath a --check-config", "--app-dir a --check"),
        ("--interface asgi3", "--interface asgi"),
        ("--timeout 40 -b :80", "--limit worker_stuck_seconds=40 -b :80"),
        ("--proxy-protocol auto", "--proxy-protocol"),
        ("--proxy-protocol=v2", "--proxy-protocol"),
        ("--proxy-protocol off", ""),
    ],
)
def test_options_of_others_are_taken_where_ours_mean_the_same(theirs, ours):
    assert parse([*theirs.split(), "app:app"]) == parse([*ours.split(), "app:app"])


EXAMPLES = {
    **dict.fromkeys(("--workers", "--processes", "-w"), "2"),
    **dict.fromkeys(("--bind", "-b"), "127.0.0.1:80"),
    **dict.fromkeys(("--umask", "-m"), "22"),
    **dict.fromkeys(("--static-dir", "--static-map"), "/a=b"),
    **dict.fromkeys(("--protocol", "--interface"), "wsgi"),
    "--lifespan": "on",
    "--asgi-lifespan": "off",
    "--fd": "3",
    "--port": "5",
    "--log-level": "info",
    "-p": "app.pid",
    "--proxy-protocol": "auto",
    "--access-log-format": "json",
    "--mount": "/a=b:c",
}
"""Option -> a value; of all others it is 5."""
OURS_TOO = ("-h", "--help", "--version", "-c", "--config", "--print-config")
"""They end the command, or read a file."""


@pytest.mark.parametrize("peer", PEERS)
def test_each_option_of_others_is_taken_or_answered_with_a_sentence(peer, capsys):
    ours = {name for action in make_parser()._actions for name in action.option_strings}
    for name, value in PEERS[peer]["options"].items():
        if name in OURS_TOO:
            continue
        try:
            taken = parse([name, *([EXAMPLES.get(name, "5")] if value else []), "app:app"])
            assert taken.application in ("app:app", "app:app()"), name
            assert name in {*ours, *ACCEPTED, *TOGETHER, *BY_VALUE, "--proxy-headers", "--no-proxy-headers"}
        except SystemExit:
            said = capsys.readouterr().err
            instead = said.removeprefix(f"syncless: there is no {name}; ")
            assert instead != said and said.count("\n") == 1 and "did you mean" not in said, said
            words = re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]+", instead)
            assert set(words) <= ours | {"-l"}, said


@pytest.mark.parametrize("peer", PEERS)
def test_each_option_of_others_is_on_a_page(peer):
    page = PAGE + (pathlib.Path(__file__).parents[2] / "docs" / "moving" / "uwsgi.md").read_text()
    rows = " ".join(line for line in page.splitlines() if line.startswith("|"))
    words = {word for code in re.findall(r"`([^`]+)`", rows) for word in code.split()}
    ours = {name for action in make_parser()._actions for name in action.option_strings}
    missing = set(PEERS[peer]["options"]) - words - {f"--{word}" for word in words} - ours
    assert not missing - {"-h", "--help", "--version", "-v"} - set(BY_VALUE)


PLUGINS = {"--http", "--https", "--asyncio", "--gevent", "--json"}
"""Options of uWSGI that not every build has."""


@pytest.mark.parametrize("peer", PEERS)
def test_options_of_others_are_those_of_their_help(peer):
    """Of an installed version that has more of them, peers.json wants to be told."""
    if shutil.which(peer) is None:
        pytest.skip(f"{peer} is not installed")
    text = subprocess.run([peer, "--help"], capture_output=True, text=True, timeout=60).stdout
    found = set(re.findall(r"^ {2,4}(?:-\w[ ,|]+)?(?:[-A-Z_]+, )?(--[a-z][\w-]+)", text, re.MULTILINE))
    known = set(PEERS[peer]["options"])
    if peer == "uwsgi":  # it has a thousand
        assert {name for name in known if name.startswith("--")} <= found | PLUGINS
    else:
        assert len(found) > 20 and found <= known, found - known


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("--listen 127.0.0.1:80", "--bind 127.0.0.1:80"),
        ("--listen 100", "--limit backlog=100"),
        ("--http :9000", "--bind :9000"),
        ("--http2", ""),
        ("--http2 off", "--http2 off"),
        ("--protocol asgi", "--interface asgi"),
        ("--call --unix-socket a.sock", "--factory --bind unix:a.sock"),
        ("--no-reload --no-lifespan", "--lifespan off"),
        ("--insecure-bind 127.0.0.1:80", "--bind http://127.0.0.1:80"),
        ("--workers-lifetime 60 --uds-permissions 600", "--limit worker_seconds=60 --unix-mode 600"),
    ],
)
def test_option_with_several_meanings_is_known_by_its_value(line, ours):
    assert parse([*line.split(), "app:app"]) == parse([*ours.split(), "app:app"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "-p 8000",
            "for a port write --port 8000, for processes --workers 8000, for a file --pid-file ./8000",
        ),
        ("-u /run/app.sock", "write --bind unix:/run/app.sock for a socket; --user is a name"),
        ("-w shop:app", "name the application without it: shop:app"),
        ("--access-log-format text", "write combined, which is the default"),
        ("--keep-alive 5000", "write 5000s or 5000ms: other servers count milliseconds"),
    ],
)
def test_value_that_shows_another_meaning_is_answered(line, said, capsys):
    with pytest.raises(SystemExit):
        parse([*line.split(), "app:app"])
    assert capsys.readouterr().err == f"syncless: {line}: {said}\n"


VALUES = {
    "asgi_lifespan": "off",
    "bind": "127.0.0.1:8000,unix:/run/app.sock",
    "forwarded_allow_ips": "10.0.0.1",
    "loglevel": "info",
    "pidfile": "app.pid",
    "proxy_protocol": "auto",
    "umask": 0o27,
}


def test_each_setting_of_gunicorn_is_taken_or_answered_with_a_sentence(tmp_path, capsys):
    config = pytest.importorskip("gunicorn.config", reason="gunicorn is not installed")
    file = tmp_path / "gunicorn.conf.py"
    for setting in config.KNOWN_SETTINGS:
        flag = getattr(setting, "action", "") in ("store_true", "store_const")
        value = VALUES.get(setting.name, True if flag else 5)
        if setting.name in ("config", "wsgi_app", "check_config", "print_config"):
            continue
        file.write_text(f"{setting.name} = {value!r}\n")
        by_file, said = None, ""
        with contextlib.suppress(SystemExit):
            by_file = vars(parse(["--config", str(file), "app:app"]))
        said = capsys.readouterr().err
        assert bool(by_file) or said.startswith(f"syncless: {file}: there is no {setting.name}; "), said
        changed = by_file and {**by_file, "config": ""} != {**vars(parse(["app:app"])), "config": ""}
        assert said or changed, setting.name
        for option in setting.cli or ():
            text = f"{value:o}" if setting.name == "umask" else str(value)
            try:
                parse([option, *([] if value is True else [text]), "app:app"])
            except SystemExit:
                assert capsys.readouterr().err.startswith(f"syncless: there is no {option}; "), option


def test_names_of_the_files_own_are_no_settings(tmp_path, capsys):
    file = tmp_path / "gunicorn.conf.py"
    file.write_text("import json, socket\nprocesses = listen = 5\ndebug = venv = home = scheme = True\n")
    found = vars(parse(["-c", str(file), "app:app"]))
    assert {**found, "config": None} == {**vars(parse(["app:app"])), "config": None}
    assert not capsys.readouterr().err


def test_file_of_gunicorn_is_read(tmp_path, capsys):
    file = tmp_path / "gunicorn.conf.py"
    file.write_text(
        "import os\ncores = 2\nwsgi_app = 'shop:app'\nbind = ['127.0.0.1:8001', 'unix:a.sock']\n"
        "workers = cores * 2\nworker_class = 'gevent'\nkeepalive = 5\ntimeout = 40\nmax_requests = 9\n"
        "accesslog = '-'\numask = 0o27\npreload_app = True\nreload = False\n"
    )
    ours = (
        "-b 127.0.0.1:8001 -b unix:a.sock -w 4 -l idle_seconds=5 -l worker_stuck_seconds=40 "
        "-l worker_requests=9 --access-log - -m 27 --preload"
    )
    found = vars(parse(["-c", str(file)]))
    assert found.pop("config") == str(file) and found == vars(parse([*ours.split(), "shop:app"]))
    assert capsys.readouterr().err == (
        f"syncless: {file}: worker_class is not used; leave it out: the standard library is patched by "
        "default, and each request is a tasklet\n"
    )
    options = parse(["-c", str(file), "-w", "1", "-b", ":80", "other:app"])
    assert (options.workers, options.bind, options.application) == (1, [":80"], "other:app")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "raw_env = ['A=1']\nca_certs = 'ca.pem'\n",
            "or --env-file FILE\nsyncless: {file}: there is no ca_certs; write --client-ca FILE",
        ),
        (
            "def post_fork(server, worker): pass\n",
            "there is no post_fork; write a function for --hook post_fork=",
        ),
        ("import missing\n", "ModuleNotFoundError: No module named 'missing'"),
        ("workers = 'many'\n", "{file}: --workers: write a number of processes, or auto, not 'many'"),
    ],
)
def test_file_of_gunicorn_that_cannot_be_taken_is_answered(text, said, tmp_path, capsys):
    file = tmp_path / "gunicorn.conf.py"
    file.write_text(text)
    with pytest.raises(SystemExit):
        parse(["-c", str(file), "app:app"])
    assert said.format(file=file) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--acces-log app:app", "there is no option --acces-log; did you mean --access-log?"),
        ("--prot 80 app:app", "there is no option --prot; did you mean --port?"),
        ("--xyzzy app:app", "there is no option --xyzzy; see syncless --help-all"),
        ("--ssl-protocol app:app", "there is no option --ssl-protocol; see syncless --help-all"),
        ("--head-seconds 5 app:app", "there is no option --head-seconds; write --limit head_seconds=N"),
        ("app:app other:app", "unexpected argument 'other:app': only one application can be named"),
        ("app:app --port", "--port needs a value"),
        ("app:app --workers many", "--workers: write a number of processes, or auto, not 'many'"),
        ("--proxy-protocol=v3 app:app", "--proxy-protocol must be auto, v1, v2, off or nothing, not 'v3'"),
        ("", "name the application to serve, for example myproject.web:app"),
        ("-c missing.conf.py app:app", "--config missing.conf.py: No such file or directory"),
    ],
)
def test_an_error_of_the_command_line_is_a_sentence(line, said, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(line.split())
    assert ended.value.code == 2 and capsys.readouterr().err == f"syncless: {said}\n"
