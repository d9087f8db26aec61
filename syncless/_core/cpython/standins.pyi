from collections.abc import Callable
from typing import Any

def stand_in(original: Any, function: Callable[..., Any]) -> Any: ...
