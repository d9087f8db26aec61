from collections.abc import Callable

def set_on_load(function: Callable[[], object] | None) -> None:
    """The function is called when a patched library has loaded another object. None removes it."""

def native_stats() -> dict[str, int]:
    """How calls of patched libraries waited, since the start of the process.

    `waits`: a tasklet parked. `with_lock`: it held a mutex of a patched library meanwhile. `broken`: it was
    killed or its time was over. `lock_waits`: for a mutex that another tasklet held. The thread itself
    waited, and all tasklets with it: `holding_gil`, the library was called with the GIL held; `no_tasklet`,
    the caller was a callback of the loop.
    """
