from typing import Any

from syncless.asgi.operations import Conversation
from syncless.http.listener import Listener

class Request(Conversation):
    task: Any
    def __init__(self, listener: Listener, call: Any, tasks: Any, loop: Any) -> None: ...
    def __call__(self, leaving: bool) -> None: ...
