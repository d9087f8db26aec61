"""Tells PyInstaller which files a program that uses syncless needs.

PyInstaller does not find modules that native code imports, modules that are imported by name, or other files.
`pyinstaller.py` prints the folder of this file.
"""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

hiddenimports = [
    *collect_submodules("syncless", filter=lambda name: not name.startswith("syncless.contrib")),
    *("dns.name", "dns.rdata", "dns.rdatatype", "dns.reversename"),
    *collect_submodules("dns.rdtypes"),
]
datas = collect_data_files("syncless", includes=["**/*.html", "**/*.h"])
