"""Files that only a forge or a release reads: their YAML, and the names in it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

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


# -- changes ------------------------------------------------------------------------------------------------


def joined(folder):
    """What towncrier makes of the files in the folder's `changes`."""
    towncrier = shutil.which("towncrier", path=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    if towncrier is None:
        pytest.skip("towncrier is not installed: pip install --group lint")
    for name in ("pyproject.toml", "changes/README.md", "changes/template.jinja"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    line = [towncrier, "build", "--draft", "--version", "9.9", "--date", "2030-01-01"]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True)


def test_changes_are_joined_by_their_kinds(tmp_path):
    (tmp_path / "changes").mkdir()
    for name, content in {
        "b.fixed.md": "One\nof two lines.",
        "a.fixed.md": "A `thing`.",
        "c.added.md": "New.",
    }.items():
        (tmp_path / "changes" / name).write_text(content)
    done = joined(tmp_path)
    expected = (
        "## 9.9 (2030-01-01)\n\n### Added\n\n- New.\n\n### Fixed\n\n- A `thing`.\n- One\n  of two lines.\n"
    )
    assert done.returncode == 0 and re.sub(r"\n{3,}", "\n\n", done.stdout).strip() == expected.strip()
    (tmp_path / "changes" / "d.repaired.md").write_text("A kind that there is not.")
    assert joined(tmp_path).returncode == 1


def test_changes_of_this_version_can_be_joined(tmp_path):
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    done = joined(tmp_path)
    assert done.returncode == 0, done.stderr
    entries = [path for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    for path in entries:
        lines = path.read_text().splitlines()
        assert 0 < len(lines) < 8 and max(map(len, lines)) <= 118 and lines[-1].endswith((".", ":")), (
            path.name
        )


def test_first_version_is_told_in_eighty_lines():
    told = (ROOT / "CHANGES.md").read_text()
    assert told.count("<!-- towncrier release notes start -->\n") == 1
    first = told[told.index("## 0.1.0") :]
    assert len(first.splitlines()) <= 80


def test_release_needs_its_changes_joined(tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / "changes").mkdir()
    shutil.copy(ROOT / ".ci" / "release", tmp_path / ".ci")
    (tmp_path / "SECURITY.md").touch()
    (tmp_path / "changes" / "README.md").touch()
    line = ["bash", tmp_path / ".ci" / "release", "false"]  # a Python that makes no environment
    assert "join" not in subprocess.run(line, capture_output=True, text=True).stderr
    (tmp_path / "changes" / "a.fixed.md").touch()
    done = subprocess.run(line, capture_output=True, text=True)
    assert (
        done.returncode == 1
        and "join these in CHANGES.md first" in done.stderr
        and "a.fixed.md" in done.stderr
    )
