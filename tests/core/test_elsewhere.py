"""The native modules compile where only the facilities of macOS and the BSDs are there.

Fact: glibc declares what other systems lack, so a name that nothing guards compiles here. tests/elsewhere
hides such names from the compiler, and declares the part of the BSD interface that the kqueue backend uses.
"""

import ast
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

import greenlet
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SETUP = ROOT / "setup.py"
COMPILER = shlex.split(os.environ.get("CC", "cc"))

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the names are hidden from Linux's headers"),
    pytest.mark.skipif(not SETUP.exists() or not shutil.which(COMPILER[0]), reason="nothing compiles here"),
]


def tables():
    """NATIVE, OPTIONAL and the names of FACILITIES in setup.py; WIRE is a part of NATIVE."""
    found = {}
    for node in ast.parse(SETUP.read_text()).body if SETUP.exists() else ():
        if isinstance(node, ast.Assign) and node.targets[0].id in ("WIRE", "NATIVE", "OPTIONAL"):
            exec(compile(ast.Module([node], []), str(SETUP), "exec"), found)
        elif isinstance(node, (ast.Assign, ast.AugAssign)) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if target.id == "FACILITIES":
                found.setdefault("FACILITIES", set()).update(key.value for key in node.value.keys)
    return found or {"NATIVE": {}, "OPTIONAL": {}, "FACILITIES": set()}


TABLES = tables()
MODULES = {
    module: sources
    for module, sources in TABLES["NATIVE"].items()
    if TABLES["OPTIONAL"].get(module, "KQUEUE") == "KQUEUE"
}


OUTSIDE = re.compile(r"extern from|(?:from|cimport) (?:posix|libc)\b")
"""What a source says that names things of the system itself, rather than by the files it cimports."""


def names_the_system(module):
    path = ROOT / module.replace(".", "/")
    files = [*(path.with_suffix(suffix) for suffix in (".pyx", ".pxd")), *path.glob("*.pxi")]
    return bool(MODULES[module]) or any(OUTSIDE.search(each.read_text()) for each in files if each.exists())


HIDDEN = "elsewhere.h"
FLAGS = ["-w", "-DSYNCLESS_PLAIN"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where the compiler finds headers. The first folder holds what they hide and declare, read by the
    compiler already: most of a module's time is theirs."""
    folder = tmp_path_factory.mktemp("config")
    lines = [f"#define SYNCLESS_{name} {int(name == 'KQUEUE')}\n" for name in sorted(TABLES["FACILITIES"])]
    assert len(lines) > 9
    (folder / "syncless_config.h").write_text("".join(lines))
    found = [folder, ROOT / "tests/elsewhere/include", pathlib.Path(sysconfig.get_path("include"))]
    found += [pathlib.Path(greenlet.__file__).parent]
    found += [ROOT / "syncless" / name for name in ("http/wire", "native", "native/include")]
    compiled([*FLAGS, "-x", "c-header", found[1] / HIDDEN, "-o", folder / f"{HIDDEN}.gch"], found)
    return found


def compiled(arguments, folders):
    done = subprocess.run(
        [*COMPILER, *(f"-I{folder}" for folder in folders), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"LD_PRELOAD": ""},
    )
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if "error" in line)


@pytest.mark.parametrize(
    "module",
    [
        module if names_the_system(module) else pytest.param(module, marks=pytest.mark.slow)
        for module in MODULES
    ],
)
def test_module_compiles_without_names_of_linux(module, folders):
    source = ROOT / f"{module.replace('.', '/')}.pyx"
    translated = ROOT / "build" / "cython" / source.relative_to(ROOT).with_suffix(".c")
    if not translated.exists() or translated.stat().st_mtime < source.stat().st_mtime:
        pytest.skip("Cython has not translated this source")
    compiled(["-fsyntax-only", *FLAGS, "-include", HIDDEN, translated, *MODULES[module]], folders)
