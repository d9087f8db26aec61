"""The hooks of MkDocs: they add generated pages, and make links between files links between pages.

Files outside docs/ that a page links (examples, recipes) become pages, too: their text in a code block.
"""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

from mkdocs.structure.files import File, Files

from scripts.docs import description
from scripts.docs.reference import GENERATED, IN_SOURCES

ROOT = pathlib.Path(__file__).parent.parent.parent
ELSEWHERE = {
    "CHANGES.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmark/README.md": "benchmark-method.md",
    "README.md": "index.md",
}
"""Path in the repository -> page of the site, for pages that do not lie in docs/."""
FENCE = "~~~~"
"""Around a file: some have blocks of code of their own."""
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


def path_of(uri: str) -> str:
    """The place in the repository of a page of the site."""
    for path, page in ELSEWHERE.items():
        if page == uri and not (ROOT / "docs" / uri).exists():
            return path
    return f"docs/{uri}"


def page_of(path: str) -> str | None:
    """The page of the site that shows a file of the repository; None for a folder."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in ELSEWHERE or path in IN_SOURCES:
        return ELSEWHERE.get(path) or IN_SOURCES[path]
    return f"files/{path}.md" if (ROOT / path).is_file() else None


def targets(path: str, text: str) -> list[str]:
    """The files that a page links, as paths in the repository."""
    return [os.path.normpath(os.path.join(os.path.dirname(path), match[1])) for match in LINK.finditer(text)]


def on_config(config: Any) -> Any:
    config.site_url = description.SITE
    config.repo_url = description.REPOSITORY or None
    return config


def on_files(files: Files, config: Any) -> Files:
    pages = {uri: write() for uri, write in GENERATED.items()}
    for path, uri in ELSEWHERE.items():
        if (ROOT / path).exists() and not (ROOT / "docs" / uri).exists():
            pages[uri] = (ROOT / path).read_text()
    sources = {path_of(uri): text for uri, text in pages.items()}
    sources |= {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    for path, text in sources.items():
        for target in targets(path, text):
            uri = page_of(target)
            if uri is not None and uri.startswith("files/"):
                language = pathlib.Path(target).suffix.lstrip(".") or "text"
                pages[uri] = f"# {target}\n\n{FENCE}{language}\n{(ROOT / target).read_text()}\n{FENCE}\n"
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Pictures are loaded when a reader comes near them, except for the first of a page."""
    first, image, rest = html.partition("<img ")
    return first + image + rest.replace("<img ", '<img loading="lazy" ')


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    here = path_of(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(here), match[1]))
        uri = page_of(target)
        if uri is None:
            return "]()"  # a folder: text only
        return f"]({os.path.relpath(uri, os.path.dirname(page.file.src_uri) or '.')}{match[2] or ''})"

    return re.sub(r"\[([^\]]*)\]\(\)", r"\1", LINK.sub(moved, markdown))
