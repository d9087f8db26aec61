"""Files that only a forge or a release reads: their YAML, and the names in it."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from tests import parts

ROOT = pathlib.Path(__file__).parent.parent
FILES = sorted((ROOT / ".github").rglob("*.yml"))


@pytest.mark.skipif(not FILES, reason="a source distribution has no .github")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_of_the_forge_is_right(path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install --group clients")
    content = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert set(content) <= {"blank_issues_enabled", "contact_links"}
    elif path.parent.name == "ISSUE_TEMPLATE":
        assert content["name"] and content["description"]
        assert all(part["attributes"]["label"] for part in content["body"])
    else:
        targets = set(re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert True in content and content["permissions"] == {"contents": "read"}  # `on` is a word for true
        for job in content["jobs"].values():
            assert (
                job["runs-on"]
                and job["timeout-minutes"]
                and set(job.get("needs", ())) <= set(content["jobs"])
            )
            for step in job["steps"]:
                assert ("uses" in step) != ("run" in step)
                assert set(re.findall(r"\bmake ([\w-]+)", step.get("run", ""))) <= targets
                assert all((ROOT / name).exists() for name in re.findall(r"\.ci/\w+", step.get("run", "")))


@pytest.mark.skipif(not FILES, reason="a source distribution has no .github")
def test_workflows_are_right_for_the_forge():
    linter = shutil.which("actionlint", path=f"{ROOT / 'build' / 'bin'}:{os.environ['PATH']}")
    if linter is None:
        pytest.skip(
            "actionlint is not installed: go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"
        )
    done = subprocess.run(
        [linter, *(ROOT / ".github" / "workflows").glob("*.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not FILES, reason="a source distribution has no .github")
def test_a_pull_request_and_a_release_pass_the_gate():
    """Whole: a part that cannot run is a failure there."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install --group clients")
    needed = {parts.OLDEST, parts.NEWEST}
    for name in ("ci", "release"):
        jobs = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())["jobs"]
        gate = jobs["gate"]
        assert "if" not in gate and gate["steps"][-1]["run"].endswith(" .ci/run --complete")
        (pythons,) = [
            step["with"]["python-version"] for step in gate["steps"] if "setup-python" in step.get("uses", "")
        ]
        assert needed <= set(pythons.split())
    assert "gate" in jobs["publish"]["needs"]


def test_release_needs_an_address_for_reports(tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "release").write_text((ROOT / ".ci" / "release").read_text())
    policy = (ROOT / "SECURITY.md").read_text()
    for text, refused in (
        (policy.replace("Write to ", "Write to SECURITY-ADDRESS, "), True),
        ("Write to me", False),
    ):
        (tmp_path / "SECURITY.md").write_text(text)
        line = ["bash", tmp_path / ".ci" / "release", "false"]  # a Python that makes no environment
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == 1 and ("write in SECURITY.md where reports go" in done.stderr) == refused
    assert policy.count("SECURITY-ADDRESS") <= 1 and "Write to " in policy


def test_scripts_of_a_release_are_programs_of_bash():
    for name in ("release", "wheels", "try-wheel"):
        subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)
