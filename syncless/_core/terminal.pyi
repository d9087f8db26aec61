from collections.abc import Callable
from typing import Any

def edited(function: Callable[[Any], str], prompt: Any, terminal: int) -> str: ...
