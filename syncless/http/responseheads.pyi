from syncless._core.loop import Loop

class ResponseHeads:
    def __init__(self, loop: Loop) -> None: ...
