from collections.abc import Mapping

from syncless.http.requestheads import RequestHeads

class Application:
    heads: RequestHeads
    stays: bool
    def __init__(self, most: int = 0) -> None: ...
    def close(self) -> None: ...

class MountedApplications(Application):
    def __init__(
        self, mounts: Mapping[str, Application], pages: Mapping[str, Application], rest: Application
    ) -> None: ...
    def close(self) -> None: ...
