from syncless._core.loop import Loop

class Deadlines:
    def __new__(cls, loop: Loop) -> Deadlines: ...
