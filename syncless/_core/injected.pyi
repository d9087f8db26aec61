import socket
from collections.abc import Callable
from typing import Any

from syncless._core.wait.select import Case

def set_lookup(function: Callable[[socket.socket, Any], Any]) -> None: ...
def set_case_maker(kind: type, maker: Callable[..., Case]) -> None: ...
