from ssl import SSLContext

class Buffers:
    def __new__(cls, budget: int) -> Buffers: ...

class TlsLayer:
    variables: dict[str, str] | None
    def __init__(self, context: SSLContext) -> None: ...
