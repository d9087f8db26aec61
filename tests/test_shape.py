"""The shape of the code: layers, public names, stubs, and that each module imports in a fresh interpreter."""

import ast
import dataclasses
import graphlib
import importlib.util
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

import syncless
from scripts.docs import design, stubs
from syncless._core.loop import checked
from syncless._core.poll.backends import BACKENDS
from syncless.http.limits import Limits
from syncless.server.certificates import TLSSettings
from syncless.server.sockets import SocketOptions

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "syncless"
HTTP2 = importlib.util.find_spec("syncless.http.http2.session")  # needs libnghttp2
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py*")
    if path.suffix in (".py", ".pyx") and path.name != "__main__.py"
    if path.stem != "explore" or checked  # only builds with assertions have it
    if path.stem != "kqueue" or "kqueue" in BACKENDS  # few systems have it
    if path.parent.name != "http2" or HTTP2
    if path.stem.isidentifier()  # a hook of PyInstaller's is none
)
NATIVE = [module for module in MODULES if (ROOT / (module.replace(".", "/") + ".pyx")).exists()]

# layer -> what it may import of syncless besides itself
LAYERS = {
    "syncless._core": set(),
    "syncless.tools": {"syncless._core"},
    "syncless.io": {"syncless._core"},
    "syncless.console": {"syncless._core", "syncless.io", "syncless"},
    "syncless.patches": {"syncless._core", "syncless.io", "syncless.tools"},
    "syncless.stackless": {"syncless._core"},
    "syncless.eventlet": {"syncless._core", "syncless.io", "syncless.tools", "syncless.patches", "syncless"},
    "syncless.asyncio": {"syncless._core", "syncless.io", "syncless.tools"},
    "syncless.http.wire": {"syncless._core"},
    "syncless.http": {"syncless._core", "syncless.io", "syncless.tools", "syncless.http.wire", "syncless"},
    "syncless.http.content": {"syncless._core", "syncless.io", "syncless.http", "syncless.http.wire"},
    "syncless.http.websocket": {"syncless._core", "syncless.http", "syncless.http.wire"},
    "syncless.http.http2": {"syncless._core", "syncless.http", "syncless.http.wire"},
    "syncless.apps": {
        "syncless._core",
        "syncless.io",
        "syncless.tools",
        "syncless.asyncio",
        "syncless.http",
        "syncless.http.wire",
        "syncless.http.content",
        "syncless.http.websocket",
        "syncless",
    },
    "syncless.shared": {
        "syncless._core",
        "syncless.io",
        "syncless.tools",
        "syncless.asyncio",
        "syncless.http",
        "syncless.http.wire",
        "syncless.http.websocket",
    },
    "syncless.server.lanes": {"syncless._core", "syncless.tools", "syncless.http"},
    "syncless.native": {
        "syncless._core",
        "syncless.http",
        "syncless.http.wire",
        "syncless.apps",
        "syncless.server.lanes",
    },
    "syncless.server": {
        "syncless._core",
        "syncless.io",
        "syncless.tools",
        "syncless.console",
        "syncless.http",
        "syncless.http.wire",
        "syncless.http.content",
        "syncless.http.http2",
        "syncless.apps",
        "syncless.server.lanes",
        "syncless.native",
        "syncless.shared",
        "syncless.asyncio",
        "syncless.patches",
        "syncless",
    },
    "syncless.wsgi": {
        "syncless.tools",
        "syncless.shared",
        "syncless.http",
        "syncless.http.websocket",
        "syncless.apps",
        "syncless.server",
    },
    "syncless.cli": {
        "syncless.io",
        "syncless.http",
        "syncless.apps",
        "syncless.server",
        "syncless.wsgi",
        "syncless.patches",
        "syncless.console",
        "syncless",
    },
    "syncless.testing": {"syncless._core", "syncless.io", "syncless.patches", "syncless"},
    "syncless.contrib": {
        "syncless.testing",
        "syncless.console",
        "syncless._core",
        "syncless.tools",
        "syncless.http",
        "syncless.apps",
        "syncless.server",
        "syncless.wsgi",
        "syncless.asyncio",
        "syncless.patches",
        "syncless.shared",
        "syncless",
    },
    "syncless": {"syncless._core", "syncless.tools"},
}
PRODUCTS = {
    name: name
    for name in (
        "cachelib",
        "celery",
        "channels",
        "django",
        "eventlet",
        "gevent",
        "gunicorn",
        "limits",
        "socketio",
    )
}
"""Files of syncless.contrib, and what must be installed for them."""
GREEN = {"MySQLdb", "OpenSSL", "zmq"}
"""Files of syncless.eventlet.green that are products' names."""
IMPORT = re.compile(r"^\s*(?:from\s+(syncless[\w.]*)\s+c?import|c?import\s+(syncless[\w.]*))", re.MULTILINE)

IMPORT_FROM = re.compile(
    r"^\s*(?:from\s+(syncless[\w.]*)\s+c?import\s+(\([^)]*\)|.*)|c?import\s+(syncless[\w.]*))", re.MULTILINE
)


def layer_of(module):
    return next(
        layer
        for layer in sorted(LAYERS, key=len, reverse=True)
        if module == layer or module.startswith(layer + ".")
    )


SOURCES = sorted(
    path
    for path in PACKAGE.rglob("*.p*")
    if path.suffix in (".py", ".pyx", ".pxi", ".pxd") and path.name != "__main__.py"
)


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_imports_point_one_way():
    found, wrong = 0, []
    for path in SOURCES:
        module = module_of(path)
        layer = layer_of(module)
        for match in IMPORT.finditer(path.read_text()):
            other = layer_of(match[1] or match[2])
            found += 1
            if other != layer and other not in LAYERS[layer]:
                wrong.append(f"{module} imports {match[1] or match[2]}: {layer} must not know {other}")
    assert found > 500 and wrong == []


# room of the engine -> the rooms that it may import besides itself; "engine": the files beside the rooms
ROOMS = {
    "cpython": set(),
    "poll": set(),
    "engine": {"cpython", "poll"},
    "wait": {"cpython", "poll", "engine"},
    "calls": {"cpython", "poll", "engine", "wait"},
}


def room_of(module):
    if module.startswith("syncless._core.wait.waitqueue"):
        return "engine"  # tasklets and the loop have wait queues, too
    room = module.removeprefix("syncless._core").lstrip(".").split(".")[0]
    return room if room in ROOMS else "engine"


def test_rooms_of_the_engine_import_one_way():
    found, wrong = 0, []
    for path in (PACKAGE / "_core").rglob("*.p*"):
        if path not in SOURCES:
            continue
        room = room_of(module_of(path))
        for match in IMPORT_FROM.finditer(path.read_text()):
            source = match[1] or match[3]
            names = re.split(r"[\s,()]+", match[2] or "") if source == "syncless._core" else [""]
            for name in filter(None, names) if source == "syncless._core" else names:
                other = room_of(f"{source}.{name}")
                found += 1
                if other != room and other not in ROOMS[room]:
                    wrong.append(f"{module_of(path)} imports {source} {name}: {other}")
    assert found > 100 and wrong == []


def test_cimports_make_no_circle():
    """Two modules that cimport each other are one: neither can be read or imported without the other."""
    declared = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in PACKAGE.rglob("*.pxd")}
    graph = {module: set() for module in declared}
    for path in [*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd")]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for match in IMPORT_FROM.finditer(path.read_text()):
            if "cimport" in match[0]:
                source = match[1] or match[3]
                others = {source, *(f"{source}.{name}" for name in re.findall(r"\w+", match[2] or ""))}
                graph.setdefault(module, set()).update(others & declared - {module})
    list(graphlib.TopologicalSorter(graph).static_order())  # a CycleError names the circle


def test_parts_of_a_module_are_included_by_it_alone():
    """x/part.pxi is a concept of x.pyx, whose folder it stands in. What the parts use is imported there."""
    parts = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.pxi")}
    included = [
        str((path.parent / name).relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.pyx")
        for name in re.findall(r'^include "([^"]+)"$', path.read_text(), re.MULTILINE)
        if name.startswith(path.stem + "/")
    ]
    assert len(parts) > 20 and sorted(included) == sorted(parts)
    for path in PACKAGE.rglob("*.pxi"):
        assert not re.search(r"^(?:(?:from \S+ )?c?import|include) ", path.read_text(), re.MULTILINE), path


LATE = re.compile(r"""(?:import_module|__import__)\(f?["'](syncless[\w.{}]*)["']""")
LATE_IMPORTS = {
    "most programs do not need it, and it imports much": {
        ("http/websocket/websocket.pyx", "syncless.http.websocket.library"),
        ("cli/tracing.py", "syncless.debug"),
        ("patches/deadlocks.py", "syncless.debug"),
        ("server/server.py", "syncless.server.options"),
        ("http/listener/admission.pxi", "syncless.http.overload"),
        ("server/status/stuck.py", "syncless.debug"),
        ("server/server.py", "syncless.server.otel.telemetry"),
        ("server/otel/telemetry.py", "syncless.server.otel.messages"),
        ("server/server.py", "syncless.http.content.compression"),
        ("server/server.py", "syncless.http.content.static.files"),
        ("server/server.py", "syncless.server.lanes.standby"),
        ("server/server.py", "syncless.http.log.slowrequests"),
        ("server/server.py", "syncless.server.program.running"),
        ("server/server.py", "syncless.server.program.blocking"),
        ("server/server.py", "syncless.server.program.selfcure"),
        ("server/program/selfcure.py", "syncless.patches"),
        ("tools/offloading.py", "syncless.tools.realthreads"),
        ("patches/eventloops.py", "syncless.tools.realthreads"),
        ("patches/__init__.py", "syncless.patches.libraries"),
        ("patches/__init__.py", "syncless.patches.outgoing"),
        ("patches/terminal.py", "syncless._core.prompt"),
        ("patches/eventloops.py", "syncless.patches.libraries"),
        ("server/kinds.py", "syncless.apps.asgi.host"),
        ("server/server.py", "syncless.native.handlerthreads"),
        ("server/program/master.py", "syncless.shared.area"),
        ("server/affinity.py", "syncless.shared.values"),
        ("server/affinity.py", "syncless.shared.metrics"),
        ("server/program/preparing.py", "syncless.shared.area"),
        ("shared/area.py", "syncless.shared.redisstore"),
        ("shared/messages.py", "syncless.asyncio.tasklets"),
        ("shared/hold.py", "syncless.asyncio.tasklets"),
        ("shared/hold.py", "syncless.asyncio.backgroundloop"),
        ("shared/hold.py", "syncless.http.websocket.library"),
        ("wsgi/held.py", "syncless.shared.hold"),
        ("server/server.py", "syncless.http.http2.session"),
        ("apps/wsgi/host.py", "syncless.apps.wsgi.compress"),
        ("server/serve.py", "syncless.server.program.serving"),
        ("server/serve.py", "syncless.patches"),
        ("server/serve.py", "syncless.asyncio.backgroundloop"),
    },
    "the system has it or not": {
        ("_core/poll/backends.py", "syncless._core.poll.{_name}"),
        ("server/status/metrics.py", "syncless.shared.metrics"),
        ("shared/area.py", "syncless.shared.embedded"),
        ("shared/messages.py", "syncless.shared.streams"),
        ("shared/hold.py", "syncless.shared.streams"),
    },
    "the user asks for the area, and gets no other": {("patches/__init__.py", "syncless.patches.{module}")},
    "it takes the place of a module of that name": {
        ("best_stackless.py", "syncless.stackless"),
        ("http/requestslots.py", "syncless.server.slots"),
    },
    "the patched product asks for what fits into it, above the patch": {
        ("patches/drivers.py", "syncless.contrib.eventlet"),
        ("patches/drivers.py", "syncless.contrib.gevent"),
        ("patches/drivers.py", "syncless.contrib.gevent.monkey"),
        ("patches/eventloops.py", "syncless.asyncio.backgroundloop"),
    },
}
"""reason -> (file, module): imports by name, which the tests of layers do not see."""


UPWARD = {
    *("best_stackless.py", "http/requestslots.py"),
    *("patches/deadlocks.py", "patches/drivers.py", "patches/eventloops.py"),
}
"""Those of them that import what is above them."""


def test_modules_imported_by_name_are_known():
    found = {
        (str(path.relative_to(PACKAGE)), module)
        for path in SOURCES
        for module in LATE.findall(path.read_text())
    }
    assert found == set().union(*LATE_IMPORTS.values())
    upward = {
        file
        for file, module in found
        for layer in [layer_of("syncless." + file.removesuffix(".py").replace("/", "."))]
        if layer_of(module) not in {layer, *LAYERS[layer]}
    }
    assert upward == UPWARD


LARGE = {
    # file -> the reason for its size
}
LARGEST = 500_000  # bytes: each clone has every version of a file for ever


def test_tracked_files_are_small():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in names.decode().split("\0") if name]
    large = {str(path.relative_to(ROOT)) for path in paths if path.exists() and path.stat().st_size > LARGEST}
    assert large == set(LARGE)


ABOUT_A_KIND = re.compile(r"\b(?:has|get)attr\((?:self\.)?(?:application|call|host|mounts|one)\b")


def test_a_server_asks_no_application_what_kind_it_is():
    """as_host() makes a Host of what a user gives; the adapters of its kind look at that."""
    for path in (PACKAGE / "server").rglob("*.py"):
        assert not ABOUT_A_KIND.search(path.read_text()), path.relative_to(ROOT)


WSGI_WORDS = re.compile(r"\b(?<!os\.)environs?\b|\bstart_response\b|(?<!\.)\bwsgi\.|\bPEP 3333\b")


def test_http_and_the_server_speak_no_wsgi():
    """Other kinds of application stand beside WSGI: only the package syncless.apps.wsgi knows it."""
    paths = [
        path
        for room in ("http", "server")
        for path in (PACKAGE / room).rglob("*")
        if path.suffix in (".py", ".pyx", ".pxi", ".pxd", ".c", ".h")
        and path.name != "serve.py"  # it tells of it
    ]
    texts = {path: re.sub(r"tests/[\w/.]+", "", path.read_text()) for path in paths}  # places of tests
    assert len(paths) > 50
    assert {name: found for name, text in texts.items() if (found := WSGI_WORDS.findall(text))} == {}


CGI = re.compile(
    r"\b(HTTPS|HTTP_[A-Z_]+|REMOTE_[A-Z]+|REQUEST_METHOD|SCRIPT_NAME|PATH_INFO|QUERY_STRING"
    r"|SERVER_(NAME|PORT|PROTOCOL))\b"
)
CGI_ROOMS = {
    "apps/wsgi": "the environ",
    "contrib": "gunicorn's environ",
    "eventlet": "the environ",
    "cli": "help that tells of it",
    "http/request.pyx": "variables() of hooks and of the access log",
    "http/log/accesslog.py": "the documentation of its atoms",
    "shared/hold.py": "the environ of another server",
}


def test_a_request_is_told_by_the_names_of_cgi_where_they_are_the_interface():
    """Everything else asks a Request (http/request.pyx)."""
    for path in PACKAGE.rglob("*"):
        place = str(path.relative_to(PACKAGE))
        if path.suffix in (".py", ".pyx", ".pxi", ".pxd", ".pyi", ".c", ".h") and not any(
            place.startswith(room) for room in CGI_ROOMS
        ):
            quoted = re.findall(r"[\"']([A-Z_]+)[\"']", path.read_text())
            assert [word for word in quoted if CGI.fullmatch(word)] == [], place


def test_nothing_imports_its_own_package_inside_a_function():
    functions, wrong = 0, []
    for path in PACKAGE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions += 1
                for node in ast.walk(function):
                    names = (
                        [node.module or ""]
                        if isinstance(node, ast.ImportFrom)
                        else [a.name for a in node.names]
                        if isinstance(node, ast.Import)
                        else []
                    )
                    if any(name.startswith("syncless") for name in names):
                        wrong.append(f"{path.name}:{function.lineno} {function.name}")
    assert functions > 1000 and wrong == []


VERSION = re.compile(
    r"PY_VERSION_HEX|PY_M[AI][A-Z]+_VERSION|\bversion_info\b|hexversion|python_version_tuple"
)


def test_one_room_knows_the_versions_of_the_interpreter():
    """features.py has their names for Python, compat.pxd the functions for Cython and C."""
    room = PACKAGE / "_core" / "cpython"
    asks = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*")
        if path.suffix in (".py", ".pyx", ".pxi", ".pxd", ".pyi", ".c", ".h")
        if path.parent != room and VERSION.search(path.read_text())
    }
    assert VERSION.search((room / "features.py").read_text())
    asks.remove("eventlet/__init__.py")  # which has a version of eventlet's, by that name
    assert asks == {"_core/__init__.py"}  # says that it is too old, or not built for this one


FRESH = """
import os, sys, warnings
import asyncio, http.client, http.server, logging.config, multiprocessing, sqlite3, ssl, tempfile, unittest
import syncless

warnings.filterwarnings("ignore", "\\nEventlet is deprecated")
for line in sys.stdin:
    if child := os.fork():
        print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    else:
        exec("import " + line)
        os._exit(0)
"""
"""Imports the modules that it reads, each in a process of its own, which has what takes long to import
already; and `syncless`, which is imported before any module in it."""


@pytest.fixture(scope="module")
def fresh():
    """fresh(module): the error when it is the first module that is imported, or an empty string."""
    command = [sys.executable, "-W", "error", "-c", FRESH]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd="/")

    def first(module):
        print(module, file=process.stdin, flush=True)
        said = []
        while not said or not re.fullmatch(r"status -?\d+\n|", said[-1]):
            said.append(process.stdout.readline())
        return "".join(said)

    with process:
        yield first


@pytest.mark.parametrize("module", MODULES)
def test_each_module_imports_alone(module, fresh):
    product = PRODUCTS.get(module.removeprefix("syncless.contrib.").split(".")[0], "")
    product = product or next(iter(GREEN.intersection(module.split("."))), "")
    product = product or ("redis" if module.startswith("syncless.shared.redis") else "")
    if product and importlib.util.find_spec(product) is None:
        pytest.skip(f"{product} is not installed")
    assert fresh(module) == "status 0\n"


def test_all_packages_are_in_the_wheel():
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in PACKAGE.rglob("__init__.py")}
    listed = set(
        re.findall(
            r'"(syncless[\w.]*)"',
            re.search(r"^packages = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[1],
        )
    )
    assert listed == found


def test_public_names():
    for name in syncless.__all__:
        assert hasattr(syncless, name), name
    for name in (
        "spawn",
        "sleep",
        "current",
        "wait",
        "join_all",
        "run_in_thread",
        "Tasklet",
        "Channel",
        "Timeout",
        "Event",
        "Lock",
        "Semaphore",
        "Queue",
    ):
        assert name in syncless.__all__
        thing = getattr(syncless, name)
        assert inspect.getdoc(thing), f"{name} has no docstring"


STUBS = [module for module in NATIVE if (ROOT / (module.replace(".", "/") + ".pyi")).exists()]


def imported_by(path):
    """The modules that a Python file or a stub imports, and the names from them, which may be modules too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_native_module_has_a_stub_if_python_imports_it():
    """Cython does not read stubs, so a module that only native modules import needs none."""
    needed, look = set(), [*PACKAGE.rglob("*.py"), ROOT / "pytest_syncless.py"]
    while look:
        found = set(imported_by(look.pop())).intersection(NATIVE) - needed
        needed |= found
        look += [path for each in found if (path := ROOT / (each.replace(".", "/") + ".pyi")).exists()]
    assert needed - set(STUBS) == set(), "these need a stub"
    assert set(STUBS) - needed == set(), "no Python file and no stub imports these"


@pytest.mark.parametrize("module", STUBS)
def test_stubs_name_what_there_is(module):
    """A stub has the public names of its module, no more and no fewer."""
    stub = ROOT / (module.replace(".", "/") + ".pyi")
    implementation = __import__(module, fromlist=["*"])
    own = {
        name
        for name, thing in vars(implementation).items()
        if not name.startswith("_")
        and getattr(thing, "__module__", module) == module
        and not inspect.ismodule(thing)
        and (inspect.isclass(thing) or callable(thing))
    }
    tree = ast.parse(stub.read_text())
    stubbed = {
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    }
    assert stubbed == own
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            thing = getattr(implementation, node.name)
            members = {
                item.name
                for item in node.body
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("__")
            }
            members |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
            public = {
                name for name in vars(thing) if not name.startswith("_") and not name.startswith("add_note")
            }
            assert members == public, f"{module}.{node.name}"


def test_functions_that_the_life_of_a_request_names_exist():
    page = (ROOT / "docs" / "design.md").read_text()
    life = page[page.index("| step | WSGI |") : page.index("A thread of native handlers passes")]
    named = re.findall(r"`([\w/]+\.(?:pyx|pxi|c))`: ((?:`\w+`(?:, )?)+)", life)
    assert len(named) > 30
    for file, functions in named:
        text = (PACKAGE / file).read_text()
        for function in re.findall(r"\w+", functions):
            assert re.search(rf"\b{function}\(|class {function}\b", text), f"{file} has no {function}"


def test_design_lists_each_file_once_with_what_it_says_of_itself():
    page = design.PAGE.read_text()
    listed = design.listed(page)
    assert len(listed) > 300 and sorted(set(listed)) == sorted(listed), "a file is listed twice"
    assert design.written(page) == page, "run: python -m scripts.docs.design"


def test_design_lists_a_new_file_and_forgets_one_that_is_gone():
    page = design.PAGE.read_text()
    file, part = "http/trust.py", "http/listener/quota.pxi"
    without = "".join(
        line for line in page.splitlines(True) if f"| `{file}`" not in line and f"| `{part}`" not in line
    )
    other = without.replace(
        "| `http/limits.py` | ", "| `http/gone.py` | Nothing |\n| `http/limits.py` | Another "
    )
    new = design.written(other)
    assert sorted(new.splitlines()) == sorted(page.splitlines())
    lines = new.splitlines()
    row = {
        each: next(n for n, line in enumerate(lines) if line.startswith(f"| `{each}`"))
        for each in (file, part)
    }
    assert "`http/listener/" in lines[row[part] - 1] and "`http/" in lines[row[file] - 1]


def test_lines_of_c_and_pages_are_at_most_110_columns():
    """ruff and cython-lint see to those of Python and Cython."""
    for path in [*PACKAGE.rglob("*.[ch]"), *PACKAGE.rglob("*.pxd"), *PACKAGE.rglob("*.html")]:
        wide = [number for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 110]
        assert not wide, f"{path.relative_to(ROOT)}: {wide}"


def test_files_stay_small():
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".pyx", ".pxd", ".pxi", ".c", ".h"):
            lines = path.read_text().count("\n")
            assert lines <= 800, f"{path.relative_to(ROOT)} has {lines} lines: perhaps it is two concepts"


def test_every_limit_is_documented():
    source = (PACKAGE / "http" / "limits.py").read_text()
    tree = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    for item, following in zip(tree.body, tree.body[1:]):  # noqa: B905
        if isinstance(item, ast.AnnAssign):
            assert isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant), (
                f"{item.target.id} has no text"
            )


def parameters(path, name):
    """The parameters of a class's __init__, from its source or stub."""
    classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
    (made,) = [
        item
        for node in classes
        if node.name == name
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name == "__init__"
    ]
    return {argument.arg for argument in [*made.args.args, *made.args.kwonlyargs]} - {"self"}


def test_option_keeps_its_name_from_serve_to_the_field_that_uses_it():
    http = PACKAGE / "http"
    options = parameters(PACKAGE / "server" / "server.py", "Server")
    limits = {field.name for field in dataclasses.fields(Limits)}
    listener = parameters(http / "listener.pyi", "Listener")
    assert listener <= options
    fields = re.findall(r"^    cdef .*?(\w+)(?: *#.*)?$", (http / "listener.pxd").read_text(), re.MULTILINE)
    assert listener <= set(fields)
    assert parameters(http / "log" / "serverlogs.py", "Logs") <= options
    assert {field.name for field in dataclasses.fields(TLSSettings)} <= options
    # of defer_accept and head_seconds
    assert {field.name for field in dataclasses.fields(SocketOptions)} <= options | limits | {"defer_seconds"}


STAYS = "listener exchange session deadline linger"
"""Of a connection that goes to another thread: what it begins there anew."""


def test_fields_of_a_connection_go_with_it_to_another_thread_or_are_known_to_stay():
    """move() copies them from the first to the last as bytes: none may own a reference."""
    text = (PACKAGE / "http" / "connection.pxd").read_text().partition("cdef class Connection(")[2]
    before, after, rest = text.split("# what follows")
    field = re.compile(r"^    cdef (\w+) (\w+)(?: *#.*)?$", re.MULTILINE)
    assert [name for _, name in field.findall(before)] == [*STAYS.split(), "remote_addr"]
    assert [name for _, name in field.findall(rest)] == ["closing", "leaves"]
    copied = field.findall(after)
    assert copied[0] == ("Stream", "stream") and copied[-1][1] == "unread"
    assert {kind for kind, _ in copied[1:]} <= {"int", "uint8_t"}
    assert (
        "memcpy(&new.stream, &old.stream, <char*> (&old.unread + 1)"
        in (PACKAGE / "http" / "acceptor" / "moving.pxi").read_text()
    )


def test_stubs_say_the_same_as_their_modules():
    found = [f"{stub.name}: {node.name}" for stub, node, _ in stubs.differences()]
    assert not found, f"run: python -m scripts.docs.stubs ({', '.join(found)})"


def test_wire_knows_no_python_no_system_and_no_clock():
    """The rules of HTTP/1.1 can be tested and fuzzed by themselves."""
    paths = sorted((PACKAGE / "http" / "wire").glob("*.[ch]"))
    own = {path.name for path in paths}
    library = {"stddef.h", "stdint.h", "stdio.h", "string.h", "time.h", "emmintrin.h"}
    for path in paths:
        text = path.read_text()
        assert set(re.findall(r'#include [<"]([^>"]+)', text)) <= own | library, path.name
        assert not re.findall(r"\b(?:malloc|calloc|free|time|clock_gettime|recv|send)\(", text), path.name


def test_numbers_of_the_wire_stand_once():
    header = (PACKAGE / "http" / "wire" / "wire.h").read_text()
    names = re.findall(r"^(?:    |#define )([A-Z][A-Z_]+)\b", header, re.M)
    names.remove("SYNCLESS_WIRE_H")
    assert len(names) > 10
    one = "|".join(names)
    defined = re.compile(rf"^ *(?:#define )?({one})(?: =| [0-9])|[{{,] ({one}) = ", re.M)
    for path in [*(PACKAGE / "http").rglob("*"), *(PACKAGE / "native").rglob("*")]:
        if path.suffix in (".c", ".h", ".pyx", ".pxi", ".pxd") and path.name != "wire.h":
            assert not defined.search(path.read_text()), path


def test_tests_that_the_sources_name_exist():
    named = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
    for path in [*PACKAGE.rglob("*.p*"), *(ROOT / "docs").rglob("*.md")]:
        if path.suffix in (".py", ".pyx", ".pxi", ".pxd", ".md"):
            for file, function in named.findall(path.read_text()):
                assert f"def {function}" in (ROOT / file).read_text(), f"{path.name} names {file} {function}"


def test_tests_look_at_the_result_of_eventually():
    """It returns whether the condition has held; a test that drops this goes on as if it had."""
    dropped = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"^ *eventually\(", path.read_text(), re.MULTILINE)  # few: reading trees takes long
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", None) == "eventually"
    ]
    assert not dropped


OTHER_ROOMS = {
    "asgi": "syncless/apps/asgi",
    "http2": "syncless/http/http2",
    "status": "syncless/server/status, from outside",
    "otel": "syncless/server/otel",
    "deploy": "deploy/: recipes, and proxies in front",
    "examples": "examples/",
    "typing": "programs that mypy reads, for test_typing.py",
    "elsewhere": "headers that hide what only Linux has",
    "switches": "the check of uses without a new look, part of `make lint`",
    "simulate": "all of a server at once, under schedules and faults that a seed chooses",
}


def test_tests_have_the_rooms_of_the_package():
    rooms = {path.name.removeprefix("_") for path in PACKAGE.iterdir() if path.is_dir()} - {"_pycache__"}
    of_tests = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}  # not those of old bytecode
    assert of_tests <= rooms | set(OTHER_ROOMS)
