"""Tells PyInstaller the files that belong to a program that uses syncless.

No look at the program finds modules that native code imports, or that are imported by name, nor files that
are no modules. `pyinstaller.py` tells where this file is.
"""

from PyInstaller.utils.hooks import (  # type: ignore  # it has no types
    collect_data_files,
    collect_submodules,
)

hiddenimports = [
    *collect_submodules("syncless", filter=lambda name: not name.startswith("syncless.contrib")),
    *("dns.name", "dns.rdata", "dns.rdatatype", "dns.reversename"),
    *collect_submodules("dns.rdtypes"),
]
datas = collect_data_files("syncless", includes=["**/*.html", "**/*.h"])
