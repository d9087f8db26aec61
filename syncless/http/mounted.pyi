from collections.abc import Mapping

from syncless.http.application import Application

class MountedApplications(Application):
    def __init__(
        self, mounts: Mapping[str, Application], pages: Mapping[str, Application], rest: Application
    ) -> None: ...
    def close(self) -> None: ...
