from typing import Any

from syncless.asyncio.handles import Calls

class Caller:
    task: Any

class Rounds(Calls): ...
