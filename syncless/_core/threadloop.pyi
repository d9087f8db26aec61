from syncless._core.loop import Loop

def current_loop() -> Loop:
    """Return this thread's loop, which the first call creates."""

def all_loops() -> list[Loop]:
    """Return the loops of all threads, the oldest first."""

def end_after_parent(seconds: int, parent: int) -> None: ...
def end_within(seconds: int) -> None: ...
