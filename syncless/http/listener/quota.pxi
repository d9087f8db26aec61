"""Quota: how many requests the listeners of a server may begin before it is replaced."""


cdef class Quota:
    """Quota(requests, used_up): calls ``used_up`` when the last of them begins, and never again."""

    def __init__(self, long long requests, used_up):
        if requests < 1:
            raise ValueError(f"a quota must be at least one request, not {requests}")
        self.left = requests
        self.used_up = used_up

    def take_many(self, long long requests) -> None:
        """So many have begun elsewhere."""
        cdef long long before = self.left
        self.left -= requests
        if before > 0 and self.left <= 0:
            self.used_up()
