from collections.abc import Callable

class Quota:
    """Quota(requests, used_up): calls ``used_up`` when the last of them begins, and never again."""

    def __init__(self, requests: int, used_up: Callable[[], object]) -> None: ...
    def take_many(self, requests: int) -> None:
        """So many have begun elsewhere."""
