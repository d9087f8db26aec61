from syncless._core.loop import Loop

def current_loop() -> Loop:
    """This thread's loop, made at the first call."""
