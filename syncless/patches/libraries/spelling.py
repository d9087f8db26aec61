"""Names that patch_native() cannot mean: takes one, and tells of the name that is meant, or of none.

A name that means nothing yet is no mistake: the library may be loaded later. A module that cannot be
imported may be one by intention, if it is a known one: a program may have it on some machines only.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import warnings

from syncless.tools.knownlibraries import LIBRARIES

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
    """TypeError or ValueError for a name that is none; a RuntimeWarning for one that nothing has."""
    if not isinstance(name, str):
        raise TypeError(f"patch_native takes the names of modules and files as text, not {name!r}")
    if not name:
        raise ValueError("patch_native takes the name of a module or file, not an empty one")
    if "/" in name:
        if not os.path.exists(name):
            _warn(f"there is no file {name!r}")
        return
    if ".so" in name or any(row.name == name for row in LIBRARIES):
        return
    meant = _module_of(name)
    if meant is not None:
        raise ValueError(f"{name!r} is not imported by that name: patch_native({meant!r})")
    if not _exists(name.partition(".")[0]):
        _warn(f"there is no module {name!r}, and it is not the name of a file, such as 'libpq.so.5'")


def _module_of(name: str) -> str | None:
    """The module that a name means, written in another way or as it is installed."""
    wanted = name.lower().replace("_", "-")
    if wanted in DISTRIBUTIONS and not _exists(name):
        return DISTRIBUTIONS[wanted]
    for row in LIBRARIES:
        if row.name.lower() == name.lower():
            return row.name
    if _exists(name.partition(".")[0]):
        return None
    for module, distributions in importlib.metadata.packages_distributions().items():
        if wanted in (distribution.lower().replace("_", "-") for distribution in distributions):
            return module
    return None


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it has been imported, by an unusual way
        return True


def _warn(sentence: str) -> None:
    warnings.warn(f"patch_native() has patched nothing yet: {sentence}", RuntimeWarning, stacklevel=5)
