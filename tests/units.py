"""Builds a Cython module that the tests of units in C need, with the flags of this build."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

import syncless.http

ROOT = pathlib.Path(__file__).parent.parent
WIRE = pathlib.Path(syncless.http.__file__).parent / "wire"

SETUP = """
import os, sys
import greenlet
from Cython.Build import cythonize
from setuptools import Extension, setup
source = sys.argv.pop()
module = Extension(source.removesuffix(".pyx"), [source], include_dirs=[os.path.dirname(greenlet.__file__)])
setup(ext_modules=cythonize([module], language_level=3, build_dir="."))
"""


def built(source, folder):
    """The module made of that .pyx, built in the folder."""
    pytest.importorskip("Cython")
    (folder / "setup.py").write_text(SETUP)
    (folder / source.name).write_bytes(source.read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": "", "CFLAGS": "-O0 -g0"}
    done = subprocess.run(
        [
            sys.executable,
            "setup.py",
            "--quiet",
            "build_ext",
            "--inplace",
            f"--include-dirs={WIRE}",
            source.name,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    path = folder / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"
    spec = importlib.util.spec_from_file_location(source.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
