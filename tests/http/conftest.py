"""Builds what the tests of units in C need: units.pyx, with the flags of this build."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent

SETUP = """
import os, sys
import greenlet
from Cython.Build import cythonize
from setuptools import Extension, setup
units = Extension("units", [sys.argv.pop()], include_dirs=[os.path.dirname(greenlet.__file__)])
setup(ext_modules=cythonize([units], language_level=3, build_dir="."))
"""


@pytest.fixture(scope="session")
def units(tmp_path_factory):
    pytest.importorskip("Cython")
    built = tmp_path_factory.mktemp("units")
    (built / "setup.py").write_text(SETUP)
    (built / "units.pyx").write_bytes((HERE / "units.pyx").read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": "", "CFLAGS": "-O0 -g0"}
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "units.pyx"],
        cwd=built,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    path = built / f"units{sysconfig.get_config_var('EXT_SUFFIX')}"
    spec = importlib.util.spec_from_file_location("units", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
