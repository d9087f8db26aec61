from syncless.http.listener import Listener

class Peer:
    def __new__(cls, listener: Listener) -> Peer: ...
