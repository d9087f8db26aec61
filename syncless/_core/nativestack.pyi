def native_stack(thread: int, number: int) -> list[tuple[str | None, str]] | None:
    """Return the C functions on the stack of another thread, the innermost first, as pairs (name or None,
    path of the file). `thread` and `number` are the thread's threading.get_ident() and get_native_id().

    The list is empty if the thread is in the interpreter itself. Return None if the stack cannot be read: the
    system does not support it, the program handles SIGURG, or another stack is being read.
    """
