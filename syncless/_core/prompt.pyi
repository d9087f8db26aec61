from collections.abc import Callable

def install(wait: Callable[[], object]) -> bool:
    """Has the prompt call ``wait()``, which returns when a key has come. False if there is another hook, such
    as that of tkinter."""

def remove() -> None:
    """Takes the hook away, if it is this one."""
