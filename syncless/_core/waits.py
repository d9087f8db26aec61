"""A wait of a tasklet that is over, in words. recorder.pyx keeps them."""

from typing import NamedTuple

SERVICES = {
    53: "DNS",
    1433: "SQL Server",
    1521: "Oracle",
    3306: "MySQL",
    5432: "PostgreSQL",
    5672: "AMQP",
    6379: "Redis",
    9042: "Cassandra",
    9092: "Kafka",
    9200: "Elasticsearch",
    11211: "memcached",
    27017: "MongoDB",
}
"""What usually listens on a port."""


class Wait(NamedTuple):
    """One that is over."""

    why: str
    """As in Tasklet.waiting_for."""
    on: str
    """The peer of a socket, or what the wait was said to be for; or ""."""
    file: str
    """Where the program waited; "" if nobody has looked."""
    line: int
    function: str
    since: float
    """Seconds of the monotonic clock."""
    seconds: float

    @property
    def what(self) -> str:
        """In words."""
        port = self.on.rpartition(":")[2]
        service = SERVICES.get(int(port)) if port.isdecimal() else None
        on = f"{service} {self.on}" if service else self.on
        return f"{self.why}: {on}" if on else self.why

    @property
    def place(self) -> str:
        """In words; or ""."""
        return f"{self.file}:{self.line} in {self.function}()" if self.file else ""

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s {self.what}" + (f" at {self.place}" if self.file else "")
