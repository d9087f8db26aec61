"""The description on package indexes: links of the README lead somewhere there, too."""

import email
import os
import re
import subprocess
import sys

import pytest

import syncless
from scripts.docs import description

README = (description.ROOT / "README.md").read_text()


@pytest.fixture
def published(monkeypatch):
    monkeypatch.setattr(description, "REPOSITORY", "https://forge.example/owner/syncless/")
    monkeypatch.setattr(description, "SITE", "https://docs.example/")


def links(text):
    return re.findall(r"\]\(([^)]*)\)", text)


def test_links_lead_to_the_repository_at_the_tag_of_the_version(published):
    text = description.long_description("1.2")
    assert len(links(text)) == len(links(README)) > 20
    assert all(target.startswith("https://") for target in links(text))
    assert "](https://forge.example/owner/syncless/blob/v1.2/docs/benchmarks.md)" in text
    assert "](https://forge.example/owner/syncless/raw/v1.2/docs/plots/overview.svg)" in text
    assert "](https://forge.example/owner/syncless/tree/v1.2/examples)" in text


def test_every_link_of_the_readme_to_a_file_is_rewritten(published):
    for target in links(README):
        if not target.startswith("https:"):
            assert (description.ROOT / target.partition("#")[0]).exists()
    given = "[a](docs/b.md#c) [d](#e) [f](https://g.example/h) ![i](j.svg)\n```\n[k](l)\n\n\n\n```\n"
    root = "https://forge.example/owner/syncless"
    assert description.long_description("1", given) == (
        f"[a]({root}/blob/v1/docs/b.md#c) [d](#e) [f](https://g.example/h) ![i]({root}/raw/v1/j.svg)\n"
        "```\n[k](l)\n\n\n\n```\n"
    )


@pytest.mark.skipif(bool(description.REPOSITORY), reason="the repository is public")
def test_no_link_is_dead_while_the_repository_is_not_public():
    text = description.long_description("1.2")
    assert not [target for target in links(text) if not target.startswith("https:")]
    assert "[tutorial]" not in text and "tutorial" in text and "folder `docs`" in text
    assert description.project_urls("1.2") == {}


def test_metadata_has_the_known_urls(published):
    assert description.project_urls("1.2") == {
        "Documentation": "https://docs.example/",
        "Source": "https://forge.example/owner/syncless/",
        "Issues": "https://forge.example/owner/syncless/issues",
        "Changelog": "https://forge.example/owner/syncless/blob/v1.2/CHANGES.md",
    }


@pytest.mark.slow
def test_metadata_of_the_package_has_the_description(tmp_path):
    program = (
        "import sys; from setuptools import build_meta as backend\n"
        "backend.prepare_metadata_for_build_wheel(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=description.ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.dist-info/METADATA")
    found = email.message_from_string(path.read_text())
    assert found["Version"] == syncless.__version__
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload().strip() == description.long_description(syncless.__version__).strip()
    assert "Project-URL" not in found or description.REPOSITORY or description.SITE
