def bring_in(fd: int, offset: int, count: int) -> None:
    """Reads that part, for a thread. Errors are left to the next reader."""
