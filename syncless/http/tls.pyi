from ssl import SSLContext

class TlsLayer:
    environ: dict[str, str] | None
    def __init__(self, context: SSLContext) -> None: ...
