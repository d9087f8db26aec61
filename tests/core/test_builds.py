"""Pythons and systems that are not supported are told so, at import and by the build."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(program, **options):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, **options
    )


def test_import_refuses_a_free_threaded_build():
    done = run("import sys; sys.abiflags += 't'; import syncless", cwd=ROOT)
    assert done.returncode == 1 and "ImportError: syncless needs the GIL" in done.stderr


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [("sys.platform = 'win32'", "install it in WSL"), ("sys.abiflags = 't'", "needs the GIL")],
)
def test_build_refuses_by_a_sentence(fact, sentence):
    if not (ROOT / "setup.py").exists():
        pytest.skip("the sources are not here")
    imported = "runpy, subprocess, sys, tempfile, multiprocessing.reduction, setuptools.command.build_ext"
    done = run(f"import {imported}, Cython.Build; {fact}; runpy.run_path('setup.py')", cwd=ROOT)
    assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr
