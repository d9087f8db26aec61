from ssl import SSLContext

class TlsLayer:
    variables: dict[str, str] | None
    def __init__(self, context: SSLContext) -> None: ...
