"""Pythons and systems that are not supported are told so, at import and by the build."""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import pytest

from tests import prepared
from tests.programs import run_unchecked

ROOT = pathlib.Path(__file__).parents[2]


def test_import_refuses_a_free_threaded_build():
    done = run_unchecked("import sys; sys.abiflags += 't'; import syncless", cwd=ROOT)
    assert done.returncode == 1 and "ImportError: syncless needs the GIL" in done.stderr


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        ("sys.platform = 'win32'", "install it in WSL"),
        ("sys.abiflags = 't'", "needs the GIL"),
        ("sys.version_info = (3, 9)", "needs Python 3.10 or newer"),
    ],
)
def test_build_refuses_by_a_sentence(fact, sentence):
    if not (ROOT / "setup.py").exists():
        pytest.skip("the sources are not here")
    modules = "runpy", "subprocess", "tempfile", "multiprocessing.reduction", *MODULES
    program = f"import sys, {', '.join(modules)}; {fact}; runpy.run_path('setup.py')"
    done = prepared.run(program, modules=modules, folder=ROOT, timeout=60)
    assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_refuses_an_old_python(tmp_path):
    python = tmp_path / "python3"
    python.write_text(
        f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 9)\nexec(sys.argv[2])\nprint('goes on')\n"
    )
    python.chmod(0o755)
    command = ["make", f"PYTHON={python}", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/bin/python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "syncless needs Python 3.10 or newer" in done.stderr
    assert "goes on" not in done.stdout


COMPILER = """#!/bin/sh
# It finds all headers but {missing}, and compiles everything into empty files.
for argument; do
    case $argument in
        */probe.c) grep -q '<{missing}>' "$argument" && exit 1 ;;
    esac
    case $previous$argument in -o*.so)
        [ "$(grep -c '[.]so$' {log})" -lt "${{FAIL_AFTER:-1000}}" ] || exit 1
    esac
    [ "$previous" = -o ] && {{ : >"$argument"; echo "$argument" >>{log}; }}
    previous=$argument
done
exit 0
"""


SETUP = """
import os, pathlib, runpy, setuptools, Cython.Build, Cython.Utils

def translated(extensions, build_dir, **options):
    for each in extensions:
        c_file = pathlib.Path(build_dir, each.sources[0]).with_suffix(".c")
        if not c_file.exists():  # it is of a module that the tests' own build has left out
            c_file.parent.mkdir(exist_ok=True)
            c_file.touch()
        each.sources[0] = str(c_file)
    if "EDITED" in os.environ:  # while Cython translates
        pathlib.Path(os.environ["EDITED"]).touch()
        pathlib.Path(extensions[0].sources[0]).touch()
    if "DEPENDS" in os.environ:
        tree = Cython.Build.Dependencies.create_dependency_tree()
        print(*tree.cimported_files(os.environ["DEPENDS"]))
    return extensions

def setup(ext_modules, **options):
    some = [each for number, each in enumerate(ext_modules) if number % 12 == 0 or optional(each.name)]
    original(ext_modules=some, **options)

optional = lambda name: "select" in name or "epoll" in name or "http2" in name
original, setuptools.setup = setuptools.setup, setup
Cython.Build.cythonize = translated
runpy.run_path("setup.py", run_name="__main__")
"""
"""Builds one module in twelve, and some of those that a build may leave out. Cython has translated
them, and would look for seconds at what each depends on."""


MODULES = "setuptools", "setuptools.command.build_ext", "Cython.Build", "Cython.Utils"


@pytest.fixture
def build(tmp_path):
    """build(missing, **environment): builds a copy of the sources with a compiler that is none. The ended
    process, and the number of modules that it has linked."""
    if not (ROOT / "setup.py").exists() or not (ROOT / "build" / "cython").exists():
        pytest.skip("the sources are not here, or Cython has not translated them")
    pytest.importorskip("Cython")
    tree, log = tmp_path / "tree", tmp_path / "log"
    for folder in ("syncless", "documentation"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "pytest_syncless.py"):
        shutil.copy2(ROOT / name, tree)
    # the copies are of now, whatever the time of the C files is
    shutil.copytree(ROOT / "build" / "cython", tree / "build" / "cython", copy_function=shutil.copyfile)

    def run(missing="nothing.h", *, inplace=True, **environment):
        compiler = tmp_path / "cc"
        compiler.write_text(COMPILER.format(missing=missing, log=log))
        compiler.chmod(0o755)
        log.write_text("")
        variables = {"CC": str(compiler), "LDSHARED": str(compiler), "LD_PRELOAD": ""} | environment
        here = f"import os; os.environ.update({variables}); os.chdir({str(tree)!r})\n"
        arguments = "--quiet", "build_ext", *["--inplace"] * inplace
        done = prepared.run(here + SETUP, *arguments, modules=MODULES, timeout=60)
        return done, sum(line.endswith(".so") for line in log.read_text().splitlines())

    return run


@pytest.mark.parametrize("header", ["Python.h", "greenlet.h"])
def test_build_names_a_missing_header(build, header):
    done, _ = build(header)
    assert done.returncode == 1 and f"the compiler does not find {header}. Install" in done.stderr
    assert "Traceback" not in done.stderr


def test_build_names_a_missing_compiler(build):
    done, _ = build(CC="/no/such/compiler")
    assert done.returncode == 1 and "there is no compiler /no/such/compiler" in done.stderr


def test_build_without_libnghttp2_leaves_http2_out_unless_it_is_required(build, tmp_path):
    header, folder = "nghttp2/nghttp2.h", tmp_path / "tree" / "syncless" / "http2"
    build()
    assert len(list(folder.glob("*.so"))) == 2
    done, _ = build(header, SYNCLESS_HTTP2="1")
    assert done.returncode == 1 and "install libnghttp2 1.43 or newer" in done.stderr
    assert "Traceback" not in done.stderr
    for missing, wanted in ((header, ""), ("nothing.h", "0")):
        done, _ = build(missing, SYNCLESS_HTTP2=wanted)
        assert done.returncode == 0 and not list(folder.glob("*.so"))
        last = done.stderr.splitlines()[-1]  # nothing below it, so it is seen
        assert ("built without HTTP/2. For it, install libnghttp2" in last) == (wanted == "")


def test_build_makes_what_is_not_up_to_date(build, tmp_path):
    done, first = build(FAIL_AFTER="3")
    assert done.returncode == 1 and first >= 3
    rest = build()[1]  # it goes on where the interrupted one stopped
    assert rest > 2 and build()[1] == 0
    told = [line for line in (done.stdout + done.stderr).splitlines() if "ompiling" in line]
    assert re.search(r"syncless: compiling (\d+) of \1 native modules", told[0]), told
    assert any(re.match(r"\[ +1/\d+\] Compiling syncless\.", line) for line in told), told
    for folder, suffix in (("", ".pyx"), ("build/cython", ".c")):  # the second is what Cython would do
        (tmp_path / "tree" / folder / "syncless/_core/poll/epoll").with_suffix(suffix).touch()
    assert build()[1] == 1 and build()[1] == 0
    assert build(inplace=False)[1] == 0  # as for a wheel
    abi = sysconfig.get_config_var("SOABI")  # the cache tag is the same for a debug build of that Python
    assert [path for path in (tmp_path / "tree" / "build").glob("native.*") if path.name.endswith(f"-{abi}")]
    tree, lib = tmp_path / "tree", next((tmp_path / "tree" / "build").glob("lib.*"))
    there = {path.relative_to(tree) for path in (tree / "syncless").rglob("*.so")}
    assert there and {path.relative_to(lib) for path in lib.rglob("*.so")} == there


@pytest.mark.parametrize(
    "cimport", ["cimport d, linked", "cimport (\n    d,\n    linked,\n)", "cimport(d, linked)"]
)
def test_build_knows_of_modules_that_are_imported_from_their_package(build, tmp_path, cimport):
    name = "syncless/_core/c.pyx"
    for path, text in ((name, f"from syncless._core {cimport}\n"), ("syncless/_core/d.pxd", "")):
        (tmp_path / "tree" / path).write_text(text)
    done, _ = build(DEPENDS=name)
    assert {"syncless/_core/d.pxd", "syncless/_core/linked.pxd"} <= set(done.stdout.split()), done


@pytest.mark.slow
def test_each_kind_of_build_makes_all_modules(build):
    modules = build()[1]
    assert build(SYNCLESS_BUILD="debug")[1] == modules
    assert build(SYNCLESS_BUILD="debug")[1] == 0
    assert 0 < build(SYNCLESS_PORTABLE="1")[1] < modules


@pytest.mark.slow
def test_declarations_that_change_while_cython_translates_are_newer_than_its_work(build, tmp_path):
    edited = tmp_path / "tree/syncless/_core/cpython/layouts.pxd"
    assert build(EDITED=str(edited))[0].returncode == 0
    c_files = (tmp_path / "tree/build/cython").rglob("*.c")
    assert max(path.stat().st_mtime for path in c_files) < edited.stat().st_mtime


@pytest.mark.slow
def test_copies_of_headers_that_have_moved_hide_no_other(build, tmp_path):
    copy = tmp_path / "tree/build/cython/syncless/http/moved.h"
    copy.touch()
    assert build()[0].returncode == 0 and not copy.exists()


def test_build_removes_modules_that_have_no_source_any_more(build, tmp_path):
    left = tmp_path / "tree" / "syncless" / f"gone{sysconfig.get_config_var('EXT_SUFFIX')}"
    other = left.with_name("gone.cpython-39-x86_64-linux-gnu.so")  # of another Python
    for path in (left, other):
        path.touch()
    assert build()[1] > 1
    assert not left.exists() and other.exists()


def test_import_without_greenlet_says_how_to_install_it():
    done = run_unchecked("import sys; sys.modules['greenlet'] = None; import syncless", cwd=ROOT)
    assert done.returncode == 1
    assert "ImportError: syncless needs greenlet: python -m pip install greenlet" in done.stderr
