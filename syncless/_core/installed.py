"""Which source files are not the program's own: those of Python, of syncless and of installed packages."""

import os

import greenlet

OWN = tuple(f"{os.path.dirname(path)}/" for path in (os.path.dirname(__file__), greenlet.__file__))
"""The folders of syncless and greenlet."""
INSTALLED = (os.path.dirname(os.__file__) + "/", "<frozen ", *OWN)
"""Beginnings of the names of files that are not the program's."""


def is_installed(file: str) -> bool:
    folders = file.split("/")
    return file.startswith(INSTALLED) or "site-packages" in folders or "dist-packages" in folders
