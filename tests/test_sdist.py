"""The source distribution has the files of the repository, so `make serve` and `make test` work in it."""

import pathlib
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
OF_THE_REPOSITORY = (".github/", ".gitignore", ".pre-commit-config.yaml")


def test_sdist_holds_all_files_but_those_of_the_repository_itself(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip(f"git does not list the files: {listed.stderr.strip()}")
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    command = f"--quiet egg_info --egg-base {tmp_path} sdist --formats tar --dist-dir {tmp_path}"
    done = subprocess.run(
        [sys.executable, "setup.py", *command.split()], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(tmp_path.glob("syncless-*.tar"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in tracked - held if not name.startswith(OF_THE_REPOSITORY)} == set()
