class Entry:
    """A place in a loaded object that holds the address of a function of libc, and our hook since hook()."""

    name: str
    def hook(self) -> None: ...
    def unhook(self) -> None:
        """libc's function stands there again."""

def loaded_objects() -> list[str]:
    """The paths of all shared objects of the process, in the order in which they were loaded."""

def count_of_loads() -> int:
    """How many objects have been loaded since the start of the process."""

def needed_by(path: str) -> list[str]:
    """The names of the objects that a loaded one was linked against."""

def hookable(path: str) -> list[Entry]:
    """The entries of a loaded object that hooks can stand in and do not yet. The object stays loaded from now
    on."""

def entries_of_file(data: bytes, page_size: int = 4096) -> list[tuple[str, str | None, int, bool]]:
    """The entries in a file, of this or another machine: (name, version, address, whether its page is
    read-only) of each entry. ValueError if the file cannot be read."""
