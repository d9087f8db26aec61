from syncless.http.listener import Listener

class Response:
    def __init__(self, listener: Listener) -> None: ...
