"""README and docs: examples run, links lead somewhere, names and numbers are those of the code.

Each Python block of a page runs by itself, with a request for each `serve`."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

import syncless
import syncless.wsgi
from scripts.docs.reference import GENERATED, IN_SOURCES
from syncless.cli import config
from syncless.http.log import accesslog
from syncless.io import socket
from syncless.server.kinds import as_host
from syncless.server.program.hooks import Hooks
from syncless.server.status.metrics import COUNTERS, GAUGES
from syncless.wsgi import Limits, Server

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
]
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(ROOT)}-{number}")
    for path in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
    )
    # examples/echo.py is that one and is visited by a test of its own; and the tests of the patches and of
    # asyncio are in processes of their own
    if "socket.create_server" not in block and "patch_all" not in block and "syncless.asyncio" not in block
]


def write_certificates(folder):
    """The files that examples name, of an authority that trustme makes."""
    import trustme

    authority = trustme.CA()
    made = authority.issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
    (folder / "cert.pem").write_bytes(chain)
    (folder / "key.pem").write_bytes(made.private_key_pem.bytes())
    (folder / "both.pem").write_bytes(chain + made.private_key_pem.bytes())
    (folder / "clients.pem").write_bytes(authority.cert_pem.bytes())


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs(block, tmp_path, monkeypatch, capsys):
    if "certfile" in block or "load_cert_chain" in block:
        pytest.importorskip(
            "trustme", reason="trustme makes the certificates of the examples: pip install trustme"
        )
        write_certificates(tmp_path)
    for package in ("flask", "sqlalchemy"):
        if f"from {package} import" in block:
            pytest.importorskip(package, reason=f"{package} is not installed")
    served = []

    def serve_once(app, *args, port=0, bind=None, **options):
        """In place of serve(): the same arguments, on free ports, for one request."""
        hooks = Hooks(options.pop("hooks", None))
        options.pop("patch", None)  # the patch would stay for the other tests
        app = as_host(app).with_hooks(hooks.for_request("pre_request"), hooks.for_request("post_request"))
        bind = [re.sub(r":\d+$", ":0", text) for text in bind] if bind else None
        with Server(app, *args, port=0, bind=bind, **options) as server:
            if not server.certificates and not options.get("proxy_protocol"):
                with socket.create_connection(server.address, timeout=60) as client:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    answer = b""
                    while data := client.recv(1000):
                        answer += data
                assert answer.startswith(b"HTTP/1.1 200 OK"), answer
            served.append(server.urls)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(syncless.wsgi, "serve", serve_once)
    before = set(sys.modules)
    exec(compile(block, "example", "exec"), {"__name__": "__main__"})
    assert served or "serve(" not in block
    assert set(sys.modules) >= before and not capsys.readouterr().err


def test_the_calls_that_take_a_timeout_are_named():
    """docs/reference/tasklets.md names each public function and method of the engine that has one."""
    text = (ROOT / "docs" / "reference" / "tasklets.md").read_text()
    named = set(re.findall(r"`(\w+)`", text.partition("Each of these takes")[2].partition(".")[0])) - {
        "timeout"
    }
    package = ROOT / "syncless"
    engine = [
        "tasklet.pyi",
        "current.pyi",
        "wait/sync.pyi",
        "wait/queues.pyi",
        "wait/select.pyi",
    ]
    tools = ["conditions.py", "pool.py", "results.py", "waiting.py"]
    files = [*(package / "_core" / name for name in engine), *(package / "tools" / name for name in tools)]
    defined = "\n".join(path.read_text() for path in files)
    assert named == {
        name
        for name in re.findall(r"def (\w+)\((?:[^)]|\(\))*\btimeout\b", defined)
        if not name.startswith("_")
    }


def test_every_limit_is_in_the_documentation():
    text = "".join(
        (DOCS / f"{page}.md").read_text()
        for page in ("reference/limits", "howto/websocket", "howto/server", "howto/workers")
    )
    missing = [
        name
        for name in Limits.__dataclass_fields__
        if f"`{name}`" not in text and name not in ("backlog", "retry_seconds")
    ]
    assert not missing


def test_every_metric_is_in_the_documentation():
    text = (DOCS / "howto" / "operating.md").read_text()
    names = [f"{name}_total" for _, name, *_ in COUNTERS] + [name for _, name, *_ in GAUGES]
    assert not [name for name in names if f"`{name}`" not in text]


def test_every_atom_is_in_the_documentation():
    """The page is written from ATOMS."""
    assert all(atom.text and accesslog.make_log(name) for name, atom in accesslog.ATOMS.items())


def test_every_environment_variable_is_in_the_documentation():
    """The page is written from VARIABLES."""
    reads = r"""(?:\.get\(|\.pop\(|\[)"([A-Z_]+)\""""
    found = set()
    for path in (ROOT / "syncless").rglob("*.p*"):
        if path.suffix not in (".py", ".pyx", ".pxi"):
            continue
        own = r"\b(?:environ|variables)" if path.parent.name in ("cli", "program") else r"\bos\.environ"
        found |= set(re.findall(own + reads, path.read_text()))
        found |= set(re.findall(r"""^VARIABLE = "(\w+)\"""", path.read_text(), re.MULTILINE))
    assert found >= {"SYNCLESS_LOOP", "SYNCLESS_CONSOLE", "PORT", "NOTIFY_SOCKET"}
    eventlets = {"EVENTLET_HUB", "EVENTLET_THREADPOOL_SIZE"}
    page = (ROOT / "docs" / "moving" / "eventlet.md").read_text()
    assert all(f"`{name}`" in page for name in eventlets)
    assert found - set(config.VARIABLES) == eventlets


def names_of(page):
    return str(page.relative_to(ROOT))


def test_lines_are_at_most_120_columns():
    """Rows of tables cannot be broken; everything else can, code too."""
    wide = [
        f"{page.name}:{number}"
        for page in [*PAGES, ROOT / "benchmark" / "README.md"]
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 120 and not line.lstrip().startswith("|")
    ]
    assert not wide


def test_readme_is_two_screens():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    first = "\n".join(text.splitlines()[:50])
    assert "make serve" in first and "make test" in first and "pip install ." in first


def test_number_of_requests_that_are_tried_is_true():
    cases = json.loads((ROOT / "tests" / "http" / "cases.json").read_text())
    for page in (ROOT / "README.md", DOCS / "reference" / "http.md"):
        assert f"{len(cases)} requests" in page.read_text()


def anchors(page):
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    named = re.findall(r"""(?<= id=")[^"]+|(?<=\{#)[\w-]+""", prose.replace("{ #", "{#"))
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in headings} | set(named)


@pytest.mark.parametrize("page", PAGES, ids=names_of)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#]*)(?:#([^)]*))?\)", prose):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name} links {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links {target}#{anchor}"


def test_generated_page_is_linked_by_its_source():
    assert sorted(IN_SOURCES.values()) == sorted(GENERATED)
    assert all((ROOT / source).exists() for source in IN_SOURCES)


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    missing = [
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if f"{page.relative_to(DOCS)}" not in nav
    ]
    assert not missing, f"add to the nav of mkdocs.yml: {missing}"


@pytest.mark.slow
def test_site_builds_strictly_and_loads_nothing_from_other_hosts(tmp_path):
    pytest.importorskip("material", reason="the site needs MkDocs: pip install --group docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert len(pages) > 30
    loaded = re.compile(r"""<(?:link|script|img|iframe)\b[^>]*(?:href|src)="(?:https?:)?//[^"]*\"""")
    for page in pages:
        assert not loaded.findall(page.read_text()), page
        assert "<p>```" not in page.read_text(), f"{page}: a block of code that MkDocs does not understand"
