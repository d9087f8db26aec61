from typing import Any

class local:
    """Attributes that each tasklet has for itself, as threading.local has them
    for each thread; they go when the tasklet ends.

    A subclass's ``__init__`` is called, with the arguments of the construction, for each tasklet that touches
    the object. Under the patch threading.local does the same. RuntimeError in a callback of the loop, where
    there is no tasklet.
    """
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattribute__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __delattr__(self, name: str) -> None: ...
