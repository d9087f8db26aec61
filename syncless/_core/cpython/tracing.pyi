class Hook: ...
class KeptFunctions: ...

def begin_call() -> None:
    """An OS thread of a pool begins a call, as a new thread begins."""

def end_call() -> None:
    """Nothing is set in this OS thread from now on."""
