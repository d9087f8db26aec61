"""How the command line finds an application, as a user types it: each case is a process of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

import pytest

from syncless.apps.loading import load
from tests.programs import run_unchecked
from tests.waiting import eventually

ROOT = pathlib.Path(__file__).parent.parent.parent
HELLO = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"found"]
"""
FACTORY = """
def create_app(name="nobody", loud=False):
    def application(environ, start_response):
        start_response("200 OK", [])
        return [f"made for {name}{'!' if loud else ''}".encode()]
    return application
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hello.py").write_text(HELLO)
    (tmp_path / "factory.py").write_text(FACTORY)
    (tmp_path / "site.wsgi").write_text("from hello import app as application\n")
    (tmp_path / "broken.wsgi").write_text("missing()\n")
    for name in ("project", "project/web", "both"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
        for part in ("wsgi", "py"):
            text = HELLO.replace("found", part).replace("app(", "application(")
            (tmp_path / name / f"{part}.py").write_text(text)
    (tmp_path / "both.wsgi").write_text("from hello import app as application\n")
    for name in ("code", "web.2"):
        (tmp_path / f"{name}.py").write_text(HELLO)
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner" / "__init__.py").write_text("word = b'relative'\n")
    (tmp_path / "package" / "inner" / "site.py").write_text(
        "from . import word\n" + HELLO.replace('b"found"', "word")
    )
    return tmp_path


def command(*arguments):
    return [sys.executable, "-m", "syncless", *arguments]


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def answer(folder, *arguments):
    """The answer of the served application at /."""
    return answers(folder, [""], *arguments)[0]


def answers(folder, paths, *arguments):
    """The same at several paths."""
    process = subprocess.Popen(
        command(*arguments, "--bind", "127.0.0.1:0"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            url = re.search(r"http://\S+", process.stdout.readline())
            assert url, process.communicate(timeout=60)[1]
            return [fetched(url[0].rstrip("/") + path) for path in paths]
        finally:
            process.terminate()


def fetched(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read().decode()


def refused(folder, *arguments, status=2):
    """The command's message on standard error when it ends with that status."""
    done = subprocess.run(
        command(*arguments), cwd=folder, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status and done.stdout == "", done
    return done.stderr


@pytest.mark.parametrize(
    ("options", "said", "status"),
    [
        ("--certfile none", "--certfile none: No such file or directory", 1),
        ("--certfile hello.py --keyfile none", "--keyfile none: No such file or directory", 1),
        ("--certfile .", "--certfile .: Is a directory", 1),
        ("--certfile hello.py", "expected a PEM certificate and its key, or give its --keyfile", 2),
        ("--key-password-file none", "--key-password-file none: No such file or directory", 2),
        ("--chdir none", "--chdir {folder}/none: No such file or directory", 2),
        ("--config none", "--config none: No such file or directory", 2),
        ("--static /a=none", "--static: {folder}/none is not a directory of static files", 2),
        ("--access-log none/log", "--access-log {folder}/none/log: No such file or directory", 1),
        ("--pid-file none/pid", "--pid-file {folder}/none/pid: No such file or directory", 1),
        (
            "--bind unix:hello.py",
            "cannot listen on unix:hello.py: Address already in use; there is a file that is not a socket",
            1,
        ),
    ],
)
def test_file_that_cannot_be_had_is_named(folder, options, said, status):
    (folder / "hello.py").write_text("def app(environ, start_response): pass\n")
    line = refused(folder, "hello:app", "--bind", "127.0.0.1:0", *options.split(), status=status)
    assert f"{said.format(folder=folder)}" in line.splitlines()[-1] and "Traceback" not in line


NAMES = {
    "hello:app": "found",
    "hello": "found",
    "hello.py": "found",
    "hello.py:app": "found",
    "./hello.py:app": "found",
    "site.wsgi": "found",  # as for mod_wsgi; there is a module site
    "./site.wsgi:application": "found",
    "package/inner/site.py:app": "relative",
    "package/inner/site:app": "relative",
    "package.inner.site:app": "relative",
    "factory:create_app()": "made for nobody",
    "factory:create_app('you', loud=True)": "made for you!",
    "project.wsgi:application": "wsgi",  # as Django makes it
    "project.wsgi": "wsgi",
    "project/wsgi.py": "wsgi",
    "project.py:application": "py",
    "project.web.wsgi:application": "wsgi",
    "both.wsgi": "wsgi",  # a file and a module: the module
    "code:app": "found",  # there is one in the standard library
    "code.py": "found",
    "web.2.py:app": "found",
}


def test_names_are_understood(folder):
    """All in one server: it looks for each as for the only one."""
    mounts = {f"/{number}": name for number, name in enumerate(NAMES)}
    options = [word for path, name in mounts.items() for word in ("--mount", f"{path}={name}")]
    assert dict(zip(NAMES, answers(folder, mounts, *options), strict=True)) == NAMES


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hello"], "found"),
        (["serve", "hello:app"], "found"),
        (["code:app"], "found"),  # there is one in the standard library
        (["--factory", "factory:create_app"], "made for nobody"),
        (["--factory", "factory.py:create_app('me')"], "made for me"),
    ],
)
def test_arguments_are_understood(folder, arguments, expected):
    assert answer(folder, *arguments) == expected


def test_module_with_the_name_of_an_imported_one_of_python_is_found(folder, monkeypatch):
    (folder / "queue.py").write_text(HELLO)
    monkeypatch.syspath_prepend(folder)
    assert load("queue:app").__module__ == load("queue").__module__ == "queue_py"
    monkeypatch.delitem(sys.modules, "queue_py")
    assert load(f"{folder}/queue.py").__code__.co_filename == str(folder / "queue.py")
    monkeypatch.delitem(sys.modules, "queue_py")
    assert hasattr(sys.modules["queue"], "SimpleQueue")


def test_looking_for_a_module_imports_nothing(folder):
    (folder / "site_of.py").write_text("raise ValueError('imported')\n")
    (folder / "site_of.wsgi").write_text("from hello import app as application\n")
    assert answer(folder, "site_of.wsgi") == "found"


def test_file_of_another_suffix_that_raises_shows_its_own_traceback(folder):
    said = refused(folder, "broken.wsgi")
    assert "NameError: name 'missing' is not defined" in said and "loading.py" not in said


def test_program_that_serves_by_itself_is_refused_with_advice(folder):
    (folder / "serving.py").write_text(HELLO + "\nfrom syncless.wsgi import serve\nserve(app, port=0)\n")
    said = refused(folder, "serving:app")
    assert "serve() was called while 'serving:app' was imported; call it below: if __name__" in said


def test_access_log_does_not_take_the_application_for_a_file(folder):
    assert answer(folder, "--access-log", "hello:app") == "found"
    assert not (folder / "hello:app").exists()
    assert answer(folder, "--access-log", "log", "hello:app") == "found"
    assert eventually(lambda: "GET / " in (folder / "log").read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hello.app"], "'app' is an attribute of module 'hello': write hello:app"),
        (["hello:nothing"], "module 'hello' has no attribute 'nothing'; it has app"),
        (["nothing.py:app"], "there is no file "),
        (["project.py.wsgi"], "and no module 'project.py.wsgi'"),
        (["factory"], "write factory:attribute"),
        (["factory:create_app(x)"], "literals only"),
        ([], "name the application"),
        (["--factory", "factory"], "--factory needs the function's name"),
    ],
)
def test_wrong_names_say_what_to_write(folder, arguments, message):
    said = refused(folder, *arguments)
    assert message in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "source", "last"),
    [
        ([], "import no_such_dependency\n", "ModuleNotFoundError: No module named 'no_such_dependency'"),
        ([], "raise ValueError('my own')\n", "ValueError: my own"),
        (["--workers", "2", "--preload"], "raise ValueError('my own')\n", "ValueError: my own"),
        (
            [],
            "import socket\nsocket.create_connection(('127.0.0.1', 1))\n",
            "ConnectionRefusedError: [Errno 111] Connection refused",
        ),
        ([], "def app(:\n", "SyntaxError: invalid syntax"),
        ([], "def app():\n    return 1 / 0\napp = app()\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_application_that_raises_shows_its_own_traceback(folder, options, source, last):
    (folder / "broken.py").write_text(source)
    said = refused(folder, *options, "broken:app")
    assert (
        said.rstrip().endswith(last)
        and f'File "{folder / "broken.py"}", line ' in said
        and said.count("Traceback") <= 1
    )
    assert "importlib" not in said and str(ROOT / "syncless") not in said


def test_factory_that_raises_shows_its_own_traceback(folder):
    (folder / "broken.py").write_text("def create():\n    raise OSError('no disk')\n")
    said = refused(folder, "broken:create()")
    assert (
        said.rstrip().endswith("OSError: no disk")
        and "in create" in said
        and str(ROOT / "syncless") not in said
    )


def test_asgi_2_application_is_refused_with_a_sentence(folder):
    (folder / "asgi.py").write_text(
        "class app:\n    async def __call__(self, receive, send):\n        pass\n"
    )
    said = refused(folder, "asgi:app")
    assert "is an ASGI 2 application" in said and "Traceback" not in said


def test_checkout_that_is_not_built_says_so(tmp_path):
    shutil.copytree(
        ROOT / "syncless", tmp_path / "syncless", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    done = run_unchecked("import syncless", cwd=tmp_path, env=environment(PYTHONPATH=""))
    assert done.returncode == 1
    assert re.search(
        rf"ImportError: syncless is not built in {tmp_path} for Python 3\.\d+: run `make serve` there",
        done.stderr,
    )


def test_python_that_is_too_old_is_named():
    program = "import sys; sys.version_info = (3, 9); import syncless"
    done = run_unchecked(program, env=environment())
    assert (
        done.stderr.rstrip().splitlines()[-1].startswith("ImportError: syncless needs Python 3.10 or newer")
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["five"], r"syncless: mistakes:five: cannot serve 5: it is not a WSGI callable, .*"),
        (
            ["wsgi", "--interface", "asgi"],
            r"syncless: mistakes:wsgi: cannot serve <function .*> as ASGI: it cannot be called with .*",
        ),
        (
            ["asgi", "--interface", "wsgi"],
            r"syncless: mistakes:asgi: expected a WSGI .*, but <function .*> is .* without --interface, .*",
        ),
    ],
)
def test_application_of_another_kind_is_named(tmp_path, arguments, said):
    (tmp_path / "mistakes.py").write_text(
        "five = 5\ndef wsgi(environ, start_response): pass\nasync def asgi(scope, receive, send): pass\n"
    )
    done = subprocess.run(
        command("--bind", "127.0.0.1:0", f"mistakes:{arguments[0]}", *arguments[1:]),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and re.fullmatch(said, done.stderr.strip()), done.stderr


# As the projects' own documentation spells them for gunicorn and uvicorn.
PROJECTS = {
    "web": (
        "code:app.wsgifunc()",
        """
import web
class index:
    def GET(self):
        return "found"
app = web.application(("/", "index"), globals())
""",
    ),
    "cherrypy": (
        "code:cherrypy.tree",
        """
import cherrypy
class Root:
    @cherrypy.expose
    def index(self):
        return "found"
cherrypy.tree.mount(Root(), "/")
""",
    ),
    "flask": (
        "code:create_app(name='found')",
        """
from flask import Flask
def create_app(name):
    app = Flask(__name__)
    app.add_url_rule("/", view_func=lambda: name)
    return app
""",
    ),
}


@pytest.mark.parametrize("library", PROJECTS)
def test_applications_are_found_as_their_projects_spell_them(folder, library):
    pytest.importorskip(library)
    spelling, code = PROJECTS[library]
    (folder / "code.py").write_text(code)
    assert answer(folder, spelling) == "found"
