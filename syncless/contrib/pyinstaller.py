"""The folder of hook-syncless.py, the PyInstaller hook for programs that use syncless. PyInstaller finds the
folder by the entry point of the installed package, or by an option::

    pyinstaller --additional-hooks-dir "$(python -m syncless.contrib.pyinstaller)" program.py
"""

from __future__ import annotations

import os


def get_hook_dirs() -> list[str]:
    """Return the folders of our hooks."""
    return [os.path.dirname(__file__)]


if __name__ == "__main__":
    print(*get_hook_dirs())
