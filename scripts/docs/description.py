"""The long description and the links of the package's metadata: README.md as package indexes show it.

An index cannot follow links between files of the repository. With REPOSITORY, they lead there; without it,
only their text stays. setup.py runs this file by its path, so it imports nothing of the project.
"""

from __future__ import annotations

import pathlib
import posixpath
import re
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent.parent

REPOSITORY = ""
"""The URL of the repository, such as https://github.com/OWNER/syncless. This is its only place: the
metadata, the site, and the README on package indexes take it from here."""
SITE = ""
"""The URL at which the pages of `make docs` are published."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
WITHOUT = "The source distribution has the documentation in its folder `docs`."


def in_repository(path: str, kind: str, revision: str) -> str:
    """The URL of a file (kind blob), a folder (tree) or a picture (raw) at a tag."""
    return f"{REPOSITORY.rstrip('/')}/{kind}/{revision}/{path}"


def long_description(version: str, text: str | None = None) -> str:
    """README.md with links that work everywhere."""
    text = (ROOT / "README.md").read_text() if text is None else text

    def linked(match: re.Match[str]) -> str:
        picture, words, target, anchor = match[1], match[2], match[3], match[4] or ""
        if not target:
            return match[0]
        if not REPOSITORY:
            return "" if picture else words
        path = posixpath.normpath(target)
        kind = "raw" if picture else "tree" if (ROOT / path).is_dir() else "blob"
        return f"{picture}[{words}]({in_repository(path, kind, f'v{version}')}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)  # code stays as it is
    parts[::2] = [re.sub(r"\n{3,}", "\n\n", LINK.sub(linked, part)) for part in parts[::2]]
    return "".join(parts) + ("" if REPOSITORY else f"\n{WITHOUT}\n")


def project_urls(version: str) -> dict[str, str]:
    """The links beside the description; none while neither URL is known."""
    urls = {"Documentation": SITE} if SITE else {}
    if REPOSITORY:
        urls |= {
            "Source": REPOSITORY,
            "Issues": f"{REPOSITORY.rstrip('/')}/issues",
            "Changelog": in_repository("CHANGES.md", "blob", f"v{version}"),
        }
    return urls


def of_package() -> dict[str, Any]:
    """Arguments of setup()."""
    source = (ROOT / "syncless" / "__init__.py").read_text()
    version = re.findall(r'^__version__ = "(.*)"', source, re.MULTILINE)[0]
    return {
        "long_description": long_description(version),
        "long_description_content_type": "text/markdown",
        "project_urls": project_urls(version),
    }
