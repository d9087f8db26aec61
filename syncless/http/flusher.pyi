from syncless._core.loop import Loop
from syncless._core.scheduler import Runnable

class Flusher(Runnable):
    def __new__(cls, loop: Loop) -> Flusher: ...
