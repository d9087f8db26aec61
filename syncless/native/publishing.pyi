from typing import Any

def publish(name: str, data: Any) -> None:
    """Gives the bytes a name, under which native handlers find them without a lock, in place of those that
    had it.

    Old bytes are freed when no handler can be reading them any more. None takes the name away. A process can
    have 256 names.
    """

def reclaim() -> int:
    """Frees old bytes that were published; how many readers may still have."""
