from collections.abc import Callable

def set_on_load(function: Callable[[], object] | None) -> None:
    """Set the function to call when a patched library has loaded another object. None removes it."""

def native_stats() -> dict[str, int]:
    """Return how calls of patched libraries waited, since the start of the process.

    `waits`: a tasklet parked. `with_lock`: the tasklet held a mutex of a patched library meanwhile. `broken`:
    the tasklet was killed or timed out. `lock_waits`: the tasklet waited for a mutex that another tasklet
    held. In two cases the thread itself waited, and all tasklets with it: `holding_gil`, the library was
    called with the GIL held; `no_tasklet`, the caller was a callback of the loop.
    """

class Entry:
    """A place in a loaded object that contains the address of a libc function, or of our interposer after
    interpose()."""

    name: str
    def interpose(self) -> None: ...
    def restore(self) -> None:
        """Put the address of libc's function back."""

def loaded_objects() -> list[str]:
    """Return the paths of all shared objects of the process, in the order of loading."""

def count_of_loads() -> int:
    """Return how many objects have been loaded since the start of the process."""

def needed_by(path: str) -> list[str]:
    """Return the names of the objects that a loaded one was linked against."""

def interposable(path: str) -> list[Entry]:
    """Return the entries of a loaded object into which interposers can still be put. The object stays loaded
    from now on."""

def entries_of_file(data: bytes, page_size: int = 4096) -> list[tuple[str, str | None, int, bool]]:
    """Return the entries in a file built for this or another machine, each as (name, version, address,
    whether its page is read-only). Raise ValueError if the file cannot be parsed."""
