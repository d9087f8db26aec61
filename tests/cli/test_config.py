"""Options from a file, from the environment and from the platform, and which of them counts."""

import subprocess

import pytest

from syncless.cli.arguments import make_parser, parse
from syncless.cli.config import FILES, ConfigError, Options, reason_of
from syncless.cli.help import measure
from syncless.cli.serving import _first_line, serve_command, set_variables
from syncless.http.limits import defaults
from tests.cli.test_loading import HELLO, command, environment

TOML = """
application = "hello:app"
bind = ["127.0.0.1:8001", "unix:/run/a.sock"]
workers = 2
access-log = true
unix_mode = "600"
trusted = "127.0.0.1"
[limits]
head_seconds = 5
requests = 100
[patch]
sqlite3 = false
cpu = true
offload = "zlib.compress"
[certificates]
"example.org" = ["cert.pem", "key.pem"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("PORT", "WEB_CONCURRENCY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def refused(capsys, *arguments):
    """The error message for a wrong option; nothing is served."""
    with pytest.raises(SystemExit) as ended:
        parse(list(arguments))
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_no_option_is_set_by_a_command_line_without_it():
    assert vars(make_parser().parse_args([])) == {}


def test_file_and_environment_set_options_that_have_a_word_as_default(folder, monkeypatch):
    (folder / "syncless.toml").write_text('interface = "wsgi"\nnative-threads = 3\n')
    monkeypatch.setenv("SYNCLESS_LIFESPAN", "off")
    options = parse(["a:b"])
    assert (options.interface, options.native_threads, options.lifespan) == ("wsgi", 3, "off")


@pytest.mark.parametrize("name", FILES)
def test_file_in_the_working_directory_is_read(folder, name):
    text = TOML
    if name == "pyproject.toml":
        head, *tables = TOML.split("\n[")
        text = "[tool.syncless]" + head + "".join("\n[tool.syncless." + table for table in tables)
    (folder / name).write_text(text)
    options = parse([])
    assert options.application == "hello:app" and options.bind == ["127.0.0.1:8001", "unix:/run/a.sock"]
    assert (options.workers, options.access_log, options.unix_mode, options.trusted) == (
        2,
        "-",
        0o600,
        ["127.0.0.1"],
    )
    assert dict(options.limits) == {"head_seconds": 5, "requests": 100} and options.patch == {
        "sqlite3": False,
        "cpu": True,
        "offload": ["zlib.compress"],
    }
    assert dict(options.certificates) == {"example.org": ("cert.pem", "key.pem")}


@pytest.mark.parametrize(
    ("name", "dest", "value"),
    [("static", "static", "dir"), ("native", "native", "module:handler"), ("mount", "mounts", "module:app")],
)
def test_table_is_set_by_a_file_and_by_a_variable(folder, monkeypatch, name, dest, value):
    (folder / "syncless.toml").write_text(f'application = "a:b"\n[{name}]\n"/one" = "{value}"\n')
    assert getattr(parse([]), dest) == [("/one", value)]
    monkeypatch.setenv(f"SYNCLESS_{name.upper()}", f"/two={value}, /three={value}")
    assert getattr(parse([]), dest) == [("/one", value), ("/two", value), ("/three", value)]


def test_other_projects_files_are_left_alone(folder):
    (folder / "pyproject.toml").write_text('[tool.other]\nbind = "x"\n')
    assert parse(["hello:app"]).bind == []
    (folder / "other.toml").write_text("workers = 7\n")
    assert parse(["hello:app"]).workers == 0 and parse(["hello:app", "--config", "other.toml"]).workers == 7


def test_source_nearest_to_the_user_wins(folder, monkeypatch):
    def chosen(*arguments):
        options = parse(["hello:app", *arguments])
        return options.workers, options.bind

    assert chosen() == (0, [])
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    monkeypatch.setenv("PORT", "5000")
    assert chosen() == (3, ["0.0.0.0:5000"])
    (folder / "syncless.toml").write_text('workers = 4\nbind = ":6000"\n')
    assert chosen() == (4, [":6000"])
    monkeypatch.setenv("SYNCLESS_WORKERS", "5")
    monkeypatch.setenv("SYNCLESS_BIND", ":7000, unix:/run/b.sock")
    assert chosen() == (5, [":7000", "unix:/run/b.sock"])
    assert chosen("-w", "6", "-b", ":8000") == (6, [":8000"])


def test_as_many_workers_as_processors_from_all_places(folder, monkeypatch):
    monkeypatch.setenv("WEB_CONCURRENCY", "auto")
    assert parse(["hello:app"]).workers == "auto"
    monkeypatch.delenv("WEB_CONCURRENCY")
    (folder / "syncless.toml").write_text('workers = "auto"\n')
    assert parse(["hello:app"]).workers == "auto"
    monkeypatch.setenv("SYNCLESS_WORKERS", "2")
    assert parse(["hello:app"]).workers == 2
    assert parse(["hello:app", "-w", "auto"]).workers == "auto"


def test_limits_of_all_places_are_put_together(folder, monkeypatch):
    (folder / "syncless.toml").write_text("[limits]\nhead_seconds = 1\nrequests = 2\nbacklog = 3\n")
    monkeypatch.setenv("SYNCLESS_LIMIT_REQUESTS", "20")
    monkeypatch.setenv("SYNCLESS_LIMIT_IDLE_SECONDS", "7.5")
    options = parse(["hello:app", "--limit", "backlog=30"])
    assert dict(options.limits) == {"head_seconds": 1, "requests": 20, "backlog": 30, "idle_seconds": 7.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worker = 2\n", "syncless.toml:1: unknown option 'worker'; did you mean 'workers'?"),
        ("workers = 'two'\n", "syncless.toml:1: workers: write a number of processes, or auto, not 'two'"),
        ("workers = true\n", "syncless.toml:1: workers: write a number of processes, or auto, not 'True'"),
        ("preload = 1\n", "syncless.toml:1: preload: write true or false, not 1"),
        ("bind = 8000\n", "syncless.toml:1: bind: write a string, not 8000"),
        ("limits = 5\n", "syncless.toml:1: limits: write a table, not 5"),
        (
            "[limits]\nhead_second = 5\n",
            "syncless.toml:1: limits: unknown limit 'head_second'; did you mean head_seconds?",
        ),
        ("[limits]\nbacklog = 1.5\n", "syncless.toml:2: limits: backlog: write a whole number, not 1.5"),
        ("[limits]\nbacklog = 'x'\n", "syncless.toml:2: limits: backlog: write a whole number, not 'x'"),
        (
            "[limits]\nrequests = 'auot'\n",
            "syncless.toml:2: limits: requests: write a whole number, or auto, not 'auot'",
        ),
        (
            "[patch]\nsqlite = false\n",
            "syncless.toml:1: patch: unknown area 'sqlite'; did you mean 'sqlite3'?",
        ),
        (
            "unix-mode = '9'\n",
            "syncless.toml:1: unix-mode: write an octal number such as 660 or 027, not '9'",
        ),
        ("unix-mode = 660\n", "syncless.toml:1: unix-mode: write a string, not 660"),
        (
            "slow_request = true\n",
            "syncless.toml:1: slow_request: write a number of seconds, such as 30, 500ms or 5m, not True",
        ),
        (
            "workers = 2\n\n[limits]\nbacklog = 1\nhead_seconds = '3x'\n",
            "syncless.toml:5: limits: head_seconds: write",
        ),
        ("[patch]\noffload = [1]\n", "syncless.toml:1: patch: write a string, not 1"),
        ("umask = 27\n", "syncless.toml:1: umask: write a string, not 27"),
        ("workers =\n", "syncless.toml: Invalid value"),
    ],
)
def test_errors_in_files_name_the_place_and_the_nearest_name(folder, capsys, text, message):
    (folder / "syncless.toml").write_text(text)
    assert message in refused(capsys, "hello:app")


@pytest.mark.parametrize("name", FILES)
def test_file_may_begin_with_a_byte_order_mark_and_have_any_line_ends(folder, name):
    table = "[tool.syncless]\r\n" if name == "pyproject.toml" else ""
    (folder / name).write_bytes(b"\xef\xbb\xbf" + f"{table}workers = 3\r\n".encode())
    assert parse(["hello:app"]).workers == 3


@pytest.mark.parametrize("options", [[], ["--config", "syncless.toml"]])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "workers = 2 # für".encode("latin-1"),
            "syncless.toml: byte 16 is not UTF-8; save the file as UTF-8",
        ),
        ("workers = 2".encode("utf-16"), "syncless.toml: byte 1 is not UTF-8"),
        (b"#" * 1_000_001, "syncless.toml: it has more than 1,000,000 bytes"),
    ],
)
def test_file_that_is_no_text_is_told(folder, capsys, options, content, message):
    (folder / "syncless.toml").write_bytes(content)
    assert message in refused(capsys, "hello:app", *options)


@pytest.mark.parametrize("text", ["tool = 5", "[tool]\nsyncless = 5"])
def test_tables_of_pyproject_must_be_tables(folder, capsys, text):
    (folder / "pyproject.toml").write_text(text)
    assert "pyproject.toml: tool.syncless: write a table, not 5" in refused(capsys, "hello:app")


def test_folder_in_the_place_of_a_file_is_told(folder, capsys):
    (folder / "syncless.toml").mkdir()
    assert "syncless.toml" in refused(capsys, "hello:app")


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "Is a directory"), ("missing", "No such file"), (b"A=\xe4", "is not UTF-8")],
)
def test_env_file_that_cannot_be_read_is_told_with_its_option(folder, content, message):
    pytest.importorskip("dotenv")
    if content is None:
        (folder / "env").mkdir()
    elif content != "missing":
        (folder / "env").write_bytes(content)
    with pytest.raises((ConfigError, OSError)) as told:
        set_variables("env")
    text = reason_of(told.value) if isinstance(told.value, OSError) else str(told.value)
    assert text.startswith("--env-file env: ") and message in text


@pytest.mark.parametrize(
    ("content", "password"), [(b"\xef\xbb\xbfp\xc3\xa4ss\r\nmore", "päss"), (b"", ""), (b"a\xe4", None)]
)
def test_password_is_the_first_line_of_its_file(folder, content, password):
    (folder / "password").write_bytes(content)
    if password is None:
        with pytest.raises(ConfigError, match=r"^--key-password-file .*password: byte 2 is not UTF-8"):
            _first_line(f"{folder}/password")
    else:
        assert _first_line(f"{folder}/password") == password


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "SYNCLESS_HOOKS",
            "2",
            "SYNCLESS_HOOKS: hooks cannot be set by a variable; use the configuration file",
        ),
        ("SYNCLESS_WORKERS", "two", "SYNCLESS_WORKERS: "),
        ("SYNCLESS_STATIC", "a=b", "SYNCLESS_STATIC: write /PREFIX=DIR, not 'a=b'"),
        ("SYNCLESS_PRELOAD", "2", "SYNCLESS_PRELOAD: write true or false, not '2'"),
        ("SYNCLESS_LIMIT_REQUESTS", "many", "SYNCLESS_LIMIT_REQUESTS: "),
        ("PORT", "http", "PORT: write a number from 0 to 65535, not 'http'"),
        ("WEB_CONCURRENCY", "x", "WEB_CONCURRENCY: write a number of processes, or auto, not 'x'"),
        (
            "SYNCLESS_LIMIT_IDLE_SECONDS",
            "x",
            "SYNCLESS_LIMIT_IDLE_SECONDS: write a number of seconds, such as 30",
        ),
        ("SYNCLESS_CONFIG", "no-such.toml", "no-such.toml"),
    ],
)
def test_wrong_variables_are_told(folder, capsys, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    assert message in refused(capsys, "hello:app")


@pytest.mark.parametrize(
    ("variable", "advice"),
    [
        ("SYNCLESS_WORKRES", "; did you mean SYNCLESS_WORKERS?"),
        ("SYNCLESS_LIMIT_HEAD_SECOND", "; did you mean SYNCLESS_LIMIT_HEAD_SECONDS?"),
        ("SYNCLESS_DEMO_9999999999_VERSION", ""),
    ],
)
def test_unknown_variables_are_warned_of(folder, capsys, monkeypatch, variable, advice):
    monkeypatch.setenv(variable, "2")
    assert parse(["hello:app"]).workers == 0
    said = f"syncless: the environment variable {variable} is unknown and has no effect{advice}\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("text", "value"), [("0", None), ("1", None), ("off", "off")])
def test_switch_of_the_build_sets_no_option(text, value):
    assert Options().from_variables({"SYNCLESS_HTTP2": text}).get("http2") == value


def test_variables_that_kubernetes_makes_for_a_service_are_left_alone(folder, capsys, monkeypatch):
    for name, value in {
        "SERVICE_HOST": "10.0.0.1",
        "SERVICE_PORT": "80",
        "SERVICE_PORT_HTTP": "80",
        "PORT": "tcp://10.0.0.1:80",
        "PORT_80_TCP": "tcp://10.0.0.1:80",
        "PORT_80_TCP_PROTO": "tcp",
        "PORT_80_TCP_PORT": "80",
        "PORT_80_TCP_ADDR": "10.0.0.1",
        "REUSE_PORT": "udp://10.0.0.1:80",  # of a service named syncless-reuse
        "LIMIT_SERVICE_HOST": "10.0.0.1",
    }.items():
        monkeypatch.setenv(f"SYNCLESS_{name}", value)
    assert not parse(["hello:app"]).reuse_port
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("SYNCLESS_REUSE_PORT", "yes")
    assert parse(["hello:app"]).reuse_port


def test_variables_of_other_parts_are_left_alone(folder, monkeypatch):
    for name in ("LOOP", "CONSOLE", "RESOLVER", "CHUNK_CACHE", "TEST_SECONDS"):
        monkeypatch.setenv(f"SYNCLESS_{name}", "1")
    assert parse(["hello:app"]).application == "hello:app"


@pytest.mark.parametrize(
    ("arguments", "variable", "patch"),
    [
        ([], "", True),
        (["--no-patch"], "", False),
        (["--no-patch-time", "--patch-cpu"], "", {"time": False, "cpu": True}),
        ([], "no", False),
    ],
)
def test_patch_is_chosen(folder, monkeypatch, arguments, variable, patch):
    if variable:
        monkeypatch.setenv("SYNCLESS_PATCH", variable)
    assert parse(["hello:app", *arguments]).patch == patch


def test_printed_configuration_can_be_read_again(folder, capsys, monkeypatch):
    (folder / "syncless.toml").write_text(TOML)
    monkeypatch.setenv("SYNCLESS_WORKERS", "5")
    with pytest.raises(SystemExit) as ended:
        parse(["--print-config", "--quiet"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert 'unix_mode = "600"  # syncless.toml' in printed
    assert "workers = 5  # environment" in printed and "quiet = true  # command line" in printed
    assert "[limits]  # syncless.toml" in printed and "preload = false  # default" in printed
    monkeypatch.delenv("SYNCLESS_WORKERS")
    before = parse(["--workers", "5", "--quiet"])
    (folder / "again.toml").write_text(printed)
    after = parse(["--config", "again.toml"])
    assert {**vars(before), "config": 0} == {**vars(after), "config": 0}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_check_imports_and_ends(folder, workers):
    (folder / "hello.py").write_text(HELLO)
    (folder / "broken.py").write_text("raise ValueError('mine')\n")

    def check(*arguments):
        line = command("--check", "--workers", workers, *arguments)
        return subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)

    good = check("hello:app")
    assert (good.returncode, good.stdout, good.stderr) == (0, "syncless: hello:app can be served\n", "")
    assert check("broken:app").returncode == 2 and "ValueError: mine" in check("broken:app").stderr
    assert check("hello:app", "--certfile", "no-such.pem").returncode == 2


# -- values and their units --


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("body_bytes=10M", 10 << 20),
        ("body_bytes=32 KiB", 32768),
        ("body_bytes=1.5k", 1536),
        ("body_bytes=2kB", 2000),
        ("body_bytes=1GiB", 1 << 30),
        ("body_rate=240 B/s", 240),
        ("request_line=8190 B", 8190),
        ("head_seconds=3s", 3.0),
        ("head_seconds=500ms", 0.5),
        ("head_seconds=1.5", 1.5),
        ("idle_seconds=5m", 300.0),
        ("worker_seconds=1d", 86400.0),
        ("worker_seconds=2 h", 7200.0),
        ("requests=1000", 1000),
    ],
)
def test_value_of_a_limit_may_have_the_unit_that_help_prints(folder, monkeypatch, text, value):
    name, _, written = text.partition("=")
    assert dict(parse(["a:b", "--limit", text]).limits) == {name: value}
    (folder / "syncless.toml").write_text(f"[limits]\n{name} = '{written}'\n")
    assert dict(parse(["a:b"]).limits) == {name: value}
    monkeypatch.setenv(f"SYNCLESS_LIMIT_{name.upper()}", written)
    (folder / "syncless.toml").unlink()
    assert dict(parse(["a:b"]).limits) == {name: value}


@pytest.mark.parametrize("name", defaults())
def test_default_that_help_prints_can_be_written(folder, name):
    value = defaults()[name]
    assert dict(parse(["a:b", "--limit", f"{name}={measure(name, value)}"]).limits) == {name: value}


def test_options_with_a_unit_take_it_too(folder, monkeypatch):
    monkeypatch.setenv("SYNCLESS_SLOW_REQUEST", "250ms")
    options = parse(["a:b", "--compress-minimum", "1KiB", "--static-max-age", "1h", "--keep-alive", "5s"])
    assert (options.slow_request, options.compress_minimum, options.static_max_age) == (0.25, 1024, 3600)
    assert dict(options.limits) == {"idle_seconds": 5}


@pytest.mark.parametrize(
    "text", ["body_bytes=10s", "head_seconds=5M5", "requests=5k", "requests=1.5", "backlog="]
)
def test_unit_of_something_else_is_refused(folder, capsys, text):
    name, _, value = text.partition("=")
    said = refused(capsys, "a:b", "-l", text)
    assert said.startswith(f"syncless: -l {name}: write a ") and said.endswith(f", not {value!r}\n")


# -- who has set what --


MISTAKES = {
    "root_path": ("x", "{} must be a path such as /api, not 'x'"),
    "trusted": ("x", "{}: write an address, a network (10.0.0.0/8), unix or *, not 'x'"),
    "certfile": ("none", "{} none: No such file or directory"),
    "compress": ("x", "{} must be a list of media types such as text/html or text/*, not 'x'"),
    "limit_head_bytes": ("1G", "{} can be 60000 at most, not 1073741824"),
    "bind": ("x:y", "{}: invalid address 'x:y'; write host:port, "),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("place", ["command", "variable", "file"])
def test_mistake_that_shows_late_is_told_by_what_has_set_the_option(folder, monkeypatch, capsys, name, place):
    (folder / "hello.py").write_text(HELLO)
    monkeypatch.syspath_prepend(folder)
    value, said = MISTAKES[name]
    word, limit = f"--{name.replace('_', '-')}", name.removeprefix("limit_")
    arguments = []
    if place == "variable":
        monkeypatch.setenv(f"SYNCLESS_{name.upper()}", value)
        named = f"SYNCLESS_{name.upper()}"
    elif place == "file":
        text = f"{name} = '{value}'" if limit == name else f"[limits]\n{limit} = '{value}'"
        (folder / "syncless.toml").write_text(f"{text}\n")
        named = (
            f"syncless.toml: {name.replace('_', '-')}" if limit == name else f"syncless.toml: limit {limit}"
        )
    else:
        arguments = [word, value] if limit == name else ["--limit", f"{limit}={value}"]
        named = word if limit == name else f"--limit {limit}"
    assert serve_command(["--check", "--no-patch", *arguments, "hello:app"]) == 2
    assert capsys.readouterr().err.startswith("syncless: " + said.format(named))


def test_option_of_another_server_keeps_its_name_in_the_message(folder, capsys):
    (folder / "hello.py").write_text(HELLO)
    assert refused(capsys, "a:b", "--processes", "x").startswith("syncless: --processes: write a number of")
    assert refused(capsys, "a:b", "--keep-alive", "x").startswith("syncless: --keep-alive: write a number of")
    assert refused(capsys, "a:b", "-wx").startswith("syncless: -w: write a number of processes")
    assert (
        refused(capsys, "a:b", "--port", "x") == "syncless: --port: write a number from 0 to 65535, not 'x'\n"
    )
    assert serve_command(["--check", "--no-patch", "--max-body", "0", "hello:app"]) == 2
    assert capsys.readouterr().err == "syncless: --max-body must be positive, not 0\n"
