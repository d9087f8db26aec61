"""Writes what follows from the row of an option (server/options.py) or of a limit (http/limits.py): the
signatures of `serve` and `Server`, the docstring of `serve`, the types of both, and the limits in C. And the
tables of options of other servers (cli/peers.py) in docs/moving/.

``python -m scripts.docs.options`` does it; a test fails where a file says something else.
"""

from __future__ import annotations

import json
import pathlib
import textwrap
from typing import Any

from syncless.cli.peers import table
from syncless.http.limits import Limits, field_of
from syncless.server.options import APPLICATION, OPTIONS, PROGRAM, ROWS, SERVER, Option

PACKAGE = pathlib.Path(__file__).parent.parent.parent / "syncless"
SERVER_PY, SERVE_PY, PROGRAM_PY, TYPES_PY = (
    PACKAGE / "server" / name for name in ("server.py", "serve.py", "program/serving.py", "arguments.py")
)
GUNICORN, UWSGI = (PACKAGE.parent / "docs" / "moving" / name for name in ("gunicorn.md", "uwsgi.md"))
WIRE_H, WIRE_PXD = (PACKAGE / "http" / "wire" / name for name in ("wire.h", "wire.pxd"))
BY_COMMAND = "# from options.py, by python -m scripts.docs.options\n"
"""Stands before the arguments of a signature."""
WIDTH = 110
INDENTED: Any = {"initial_indent": " " * 4, "subsequent_indent": " " * 6, "break_on_hyphens": False}
TYPES = '''"""The types of the arguments of `Server`, for editors, type checkers and `serve`. ``python -m
scripts.docs.options`` writes this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypedDict

if TYPE_CHECKING:
    import os
    import ssl

    from syncless.http.content.static.files import Paths
    from syncless.http.limits import Limits
    from syncless.server.addresses import Bind
    from syncless.server.certificates import Files


class LimitOptions(TypedDict, total=False):
    """The limits as single arguments; limits.py describes them."""

{limits}

class ServerOptions(LimitOptions, total=False):
    """The arguments of `Server` after `application`, `host` and `port`."""

{options}'''


def of(*where: str) -> list[Option]:
    return [option for option in ROWS if option.where in where]


def typed(option: Option) -> tuple[str, str]:
    """The type and the default of an argument, as Python has them."""
    kind, _, default = option.type.partition(" = ")
    if not kind:
        kind = "str | None" if option.default is None else type(option.default).__name__
    if not default:
        default = json.dumps(option.default) if isinstance(option.default, str) else repr(option.default)
    return kind, default


def signature(indent: str, *where: str) -> str:
    rows = [(each.name, *typed(each)) for each in of(*where)]
    return "".join(f"{indent}{name}: {kind} = {default},\n" for name, kind, default in rows)


def fields(types: dict[str, str]) -> str:
    return "".join(f"    {name}: {kind}\n" for name, kind in types.items()).replace("'", '"')


def docstring() -> str:
    """The options below their headings."""
    text = ""
    for heading, options in OPTIONS.items():
        text += f"\n    {heading[0].upper()}{heading[1:]}:\n\n"
        for each in options:
            if each in of(APPLICATION, SERVER, PROGRAM) and (each.call or each.text):
                unit = f" ({each.value.lower()})" if each.value in ("SECONDS", "BYTES") else ""
                row = f"- `{each.name}`{unit}: {each.call or each.text}."
                text += textwrap.fill(row, WIDTH, **INDENTED) + "\n"
    return text


def struct(indent: str, end: str) -> str:
    """The limits as fields in C."""
    fields = [field_of(name) for name in Limits.__annotations__]
    text = ""
    for kind in ("int64_t", "double"):
        names = ", ".join(name for each, name in fields if each == kind)
        for line in textwrap.wrap(names, WIDTH - 20):
            text += f"{indent}{kind} {line.rstrip(',')}{end}\n"
    return text


def put(text: str, before: str, after: str, new: str) -> str:
    """The text with something new between these two."""
    start = text.index(before) + len(before)
    return text[:start] + new + text[text.index(after, start) :]


def written() -> dict[pathlib.Path, str]:
    """Each file as it should be."""
    paths = (SERVER_PY, SERVE_PY, PROGRAM_PY, WIRE_H, WIRE_PXD)
    server, serve, program, wire, wire_pxd = (path.read_text() for path in paths)
    gunicorn, uwsgi = GUNICORN.read_text(), UWSGI.read_text()
    types = {each.name: typed(each)[0] for each in of(PROGRAM)}
    serve = put(serve, BY_COMMAND, "    **options", signature(" " * 4, APPLICATION, PROGRAM))
    serve = put(serve, "both families.\n", "\n    SIGUSR1", docstring())
    serve = put(serve, "port,\n", "        **options", "".join(f"        {name}={name},\n" for name in types))
    return {
        SERVER_PY: put(server, BY_COMMAND, "        **overrides", signature(" " * 8, APPLICATION, SERVER)),
        SERVE_PY: serve,
        PROGRAM_PY: put(program, BY_COMMAND, "    **options", fields(types).replace("\n", ",\n")),
        WIRE_H: put(wire, "struct limits {\n", "    int64_t body_check_ns", struct("    ", ";")),
        WIRE_PXD: put(wire_pxd, "struct limits:\n", "        int64_t body_check_ns", struct(" " * 8, "")),
        GUNICORN: put(gunicorn, "|---|---|---|---|---|---|\n", "\n## Signals", table("gunicorn")),
        UWSGI: put(uwsgi, "| uWSGI | syncless |\n|---|---|\n", "\n### Calls", table("uwsgi")),
        TYPES_PY: TYPES.format(
            limits=fields(Limits.__annotations__),
            options=fields({each.name: typed(each)[0] for each in of(SERVER)}),
        ),
    }


if __name__ == "__main__":
    for path, text in written().items():
        if path.read_text() != text:  # or what includes it is compiled anew
            path.write_text(text)
