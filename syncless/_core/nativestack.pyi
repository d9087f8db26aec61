def native_stack(thread: int, number: int) -> list[tuple[str | None, str]] | None:
    """Return the C functions that another thread is in, the innermost first: (name or None, path of the
    file). `thread` and `number` are what threading.get_ident() and get_native_id() say in it.

    Empty if it is in the interpreter itself. None if that cannot be found out: this system does not tell, the
    program has a handler of SIGURG, or another stack is being read.
    """
