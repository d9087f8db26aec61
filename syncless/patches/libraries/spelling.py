"""Checks names for patch_native(), and suggests the correct name for a misspelt one.

A file that does not exist yet is not an error: it may be made or loaded later. A known module may be missing,
too, because a program may have it only on some machines.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES

from syncless.patches.libraries.parking import loaded_objects
from syncless.tools.knownlibraries import LIBRARIES, refuse

DISTRIBUTIONS = {
    "mysqlclient": "MySQLdb",
    "mysql-connector-python": "_mysql_connector",
    "psycopg2-binary": "psycopg2",
    "python-ldap": "ldap",
    "pyzmq": "zmq",
    "cassandra-driver": "cassandra",
}
"""The name by which a package is installed -> the module that is imported, where they differ."""


def check(name: str) -> None:
    """Raise TypeError or ValueError for a name that is malformed, refused, or names a module without C code.
    Warn (RuntimeWarning) about a file that does not exist."""
    if not isinstance(name, str):
        raise TypeError(f"patch_native expects names of modules and files as str, not {name!r}")
    if not name:
        raise ValueError("patch_native expects the name of a module or file, not an empty string")
    refuse(name)
    if "/" in name:
        if not os.path.exists(name):
            _warn(f"there is no file {name!r}")
        return
    if any(row.name == name for row in LIBRARIES):
        return
    if ".so" in name:
        if not _is_file(name):
            _warn(
                f"there is no library {name!r}: it is not loaded, and not where the system looks for "
                "libraries"
            )
        return
    meant = _module_of(name)
    if meant is not None:
        raise ValueError(f"{name!r} is not imported by that name: patch_native({meant!r})")
    if not _exists(name.partition(".")[0]):
        raise ValueError(
            f"there is no module {name!r}, and it is not the name of a file, such as 'libpq.so.5'"
        )
    if not _has_extension(name):
        raise ValueError(
            f"{name!r} has no extension module; name the C module that it imports, or the file of a library"
        )


def _module_of(name: str) -> str | None:
    """Return the module that a name means, if it is spelt differently or is the name of the installed
    package."""
    wanted = name.lower().replace("_", "-")
    if wanted in DISTRIBUTIONS and not _exists(name):
        return DISTRIBUTIONS[wanted]
    for row in LIBRARIES:
        if row.name.lower() == name.lower():
            return row.name
    if _exists(name.partition(".")[0]):
        return None
    import importlib.metadata  # takes long to load

    for module, distributions in importlib.metadata.packages_distributions().items():
        if wanted in (distribution.lower().replace("_", "-") for distribution in distributions):
            return module
    return None


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it has been imported, by an unusual way
        return True


def _has_extension(name: str) -> bool:
    """Return whether a module is an extension module, or a package that contains one, without importing
    anything."""
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top) if top not in sys.modules else sys.modules[top].__spec__
    if spec is None:
        return True  # it has been imported, by an unusual way
    found = [*(spec.submodule_search_locations or ()), spec.origin or ""]
    for part in parts:
        found = [
            entry.path
            for folder in filter(os.path.isdir, found)
            for entry in os.scandir(folder)
            if entry.name.partition(".")[0] == part
        ]
    files = (file for folder in found for _, _, files in os.walk(folder) for file in files)
    return any(file.endswith(tuple(EXTENSION_SUFFIXES)) for file in (*found, *files))


def _is_file(name: str) -> bool:
    """Return whether there is a library of that file name: already loaded, in a library directory of the
    system, or in an installed package."""
    pattern = re.compile(rf"{re.escape(name)}(\..*)?")
    folders = {os.path.dirname(path) for path in loaded_objects()}
    folders.update(("/lib", "/usr/lib", "/usr/local/lib", *os.getenv("LD_LIBRARY_PATH", "").split(":")))
    for folder in filter(os.path.isdir, folders):
        if any(pattern.fullmatch(file) for file in os.listdir(folder)):
            return True
    try:
        with open("/etc/ld.so.cache", "rb") as cache:
            if re.search(rb"[/\0]" + re.escape(name.encode()) + rb"[.\0]", cache.read()):
                return True
    except OSError:
        pass
    import importlib.metadata

    installed = importlib.metadata.distributions()
    return any(pattern.fullmatch(file.name) for each in installed for file in each.files or ())


def _warn(sentence: str) -> None:
    warnings.warn(f"patch_native() has patched nothing yet: {sentence}", RuntimeWarning, stacklevel=5)
