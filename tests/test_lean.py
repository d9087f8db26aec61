"""`import syncless.wsgi` and the command are lean: what few servers need is imported when it is used."""

import subprocess
import sys

LATER = """
ast asyncio concurrent ctypes dataclasses difflib dis email html http.client http.server inspect json logging
multiprocessing platform shutil ssl subprocess tempfile tokenize traceback unittest urllib.request
syncless.apps.asgi.host syncless.asyncio syncless.cli syncless.console syncless.contrib syncless.debug
syncless.http.content.compression syncless.server.program.master syncless.server.program.running
syncless.http.content.static.files syncless.server.status syncless.io.dns syncless.native syncless.patches
syncless.stackless
""".split()
"""Modules that `import syncless.wsgi` must not import, nor any module below them."""
LATER_IN_THE_COMMAND = """
ast asyncio dataclasses email http.client importlib.metadata inspect logging platform tempfile tomllib
""".split()
"""The same for the command with all of the patch that is on by default."""
LATER_UNDER_THE_PATCH = """
asyncio bcrypt ctypes dataclasses email hashlib http.client inspect json locale logging multiprocessing
random sqlite3 ssl _ssl _hashlib subprocess tempfile uuid syncless.patches.cpu syncless.patches.grpc
syncless.patches.libraries syncless.patches.mysql syncless.patches.pools syncless.patches.psycopg2
syncless.patches.sqlite syncless.patches.tls syncless.patches.types.tlscalls
""".split()
"""The same for patch_all(): a module that it changes when the program imports it is not imported ahead."""
COMMAND = """
import sys, types
sys.argv = ["syncless", "app:app", "--check"]
sys.modules["app"] = module = types.ModuleType("app")
module.app = lambda environ, start_response: []
from syncless.cli import main
assert main() == 0
"""


def modules_after(program):
    command = [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd="/")
    return done.stdout.split()


def test_import_of_the_server_loads_no_module_that_most_servers_never_use():
    before = set(modules_after(""))  # what the installation itself imports
    loaded = set(modules_after("import syncless.wsgi")) - before
    assert {name for name in loaded for late in LATER if f"{name}.".startswith(f"{late}.")} == set()


def test_command_loads_no_module_that_most_servers_never_use():
    loaded = set(modules_after(COMMAND)) - set(modules_after(""))
    assert {
        name for name in loaded for late in LATER_IN_THE_COMMAND if f"{name}.".startswith(f"{late}.")
    } == set()


def test_patch_loads_no_module_that_the_program_may_never_import():
    program = "import syncless.wsgi\nfrom syncless.patches import patch_all\npatch_all()"
    loaded = set(modules_after(program)) - set(modules_after(""))
    late = {name for name in loaded for late in LATER_UNDER_THE_PATCH if f"{name}.".startswith(f"{late}.")}
    assert late == set()


def test_server_of_plain_requests_loads_no_tls():
    program = """
import socket
from syncless.wsgi import Server
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]
with Server(app, port=0) as server:
    from syncless import run_in_thread
    def get():
        with socket.create_connection(server.address) as client:
            client.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            return client.makefile("rb").read()
    assert run_in_thread(get).endswith(b"hello")
"""
    loaded = modules_after(program)
    assert not {"ssl", "_ssl", "http.client", "logging"} & set(loaded)
