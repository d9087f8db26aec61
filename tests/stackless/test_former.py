"""Names of the Syncless of 2010 are answered by a sentence with today's call."""

import importlib
import pathlib
import re
import subprocess
import sys

import pytest

import syncless.coio
import syncless.patch
import syncless.wsgi

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "moving" / "stackless.md"
ROWS = [line.strip("| ").split(" | ", 1) for line in PAGE.read_text().splitlines() if line.startswith("| `")]
FORMER = {
    (module, name): now
    for before, now in ROWS
    for module, name in re.findall(r"\b(coio|patch|wsgi)\.(\w+)\(", before)
}


@pytest.mark.parametrize("former", FORMER, ids=".".join)
def test_each_name_of_the_page_is_answered_as_there(former):
    module, name = former
    with pytest.raises(ImportError, match=rf"syncless\.{module}\.{name} .* now, see docs") as raised:
        getattr(importlib.import_module(f"syncless.{module}"), name)
    (today,) = re.findall(r"use (?:the standard library under )?([\w.]+)", str(raised.value))
    elsewhere = {"syncless.wsgi.serve", "syncless.patches.patch_all", "syncless.stackless"}
    assert today in FORMER[former] or today in elsewhere


def test_import_of_a_name_shows_the_sentence():
    with pytest.raises(ImportError, match=r"use syncless\.wsgi\.serve\(app, host, port\) now"):
        exec("from syncless.wsgi import RunHttpServer")
    with pytest.raises(ImportError, match=r"use syncless\.sleep\(\) now"):
        exec("from syncless.coio import sleep")


PROGRAM = """
import sys
try:
    import concurrence.core
except ImportError as error:
    print(error)
open("concurrence.py", "w").close()
sys.path.insert(0, ".")
import concurrence
print("found")
"""


def test_run_answers_an_import_of_concurrence_unless_it_is_there(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "syncless", "run", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.stdout.endswith("found\n"), done.stderr
    assert "use syncless.stackless for its tasklets and channels and the standard library" in done.stdout


def test_other_names_are_missing_as_in_any_module():
    assert not hasattr(syncless.wsgi, "RunHttpsServer")
    assert not hasattr(syncless.coio, "__path__") and not hasattr(syncless.patch, "__path__")
