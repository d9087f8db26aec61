"""``from syncless.best_stackless import stackless``: imports the interpreter's own `stackless`, or ours if
there is none.

After this import ``import stackless`` imports the same module everywhere in the process.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

stackless: Any
try:
    stackless = importlib.import_module("stackless")
except ModuleNotFoundError as error:
    if error.name != "stackless":
        raise
    stackless = sys.modules["stackless"] = importlib.import_module("syncless.stackless")

__all__ = ["stackless"]
