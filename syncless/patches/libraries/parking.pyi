from collections.abc import Callable

def set_on_load(function: Callable[[], object] | None) -> None:
    """The function is called when a patched library has loaded another object. None removes it."""

def native_stats() -> dict[str, int]:
    """Return how calls of patched libraries waited, since the start of the process.

    `waits`: a tasklet parked. `with_lock`: it held a mutex of a patched library meanwhile. `broken`: it was
    killed or its time was over. `lock_waits`: for a mutex that another tasklet held. The thread itself
    waited, and all tasklets with it: `holding_gil`, the library was called with the GIL held; `no_tasklet`,
    the caller was a callback of the loop.
    """

class Entry:
    """A place in a loaded object that holds the address of a function of libc, and of our interposer since
    interpose()."""

    name: str
    def interpose(self) -> None: ...
    def restore(self) -> None:
        """libc's function stands there again."""

def loaded_objects() -> list[str]:
    """Return the paths of all shared objects of the process, in the order in which they were loaded."""

def count_of_loads() -> int:
    """Return how many objects have been loaded since the start of the process."""

def needed_by(path: str) -> list[str]:
    """Return the names of the objects that a loaded one was linked against."""

def interposable(path: str) -> list[Entry]:
    """Return the entries of a loaded object that interposers can stand in and do not yet. The object stays
    loaded from now on."""

def entries_of_file(data: bytes, page_size: int = 4096) -> list[tuple[str, str | None, int, bool]]:
    """Return the entries in a file, of this or another machine: (name, version, address, whether its page is
    read-only) of each entry. Raise ValueError if the file cannot be read."""
