from syncless.http.deadlines import Deadlines

class Admission:
    active: int
    queued: int
    def __init__(self, deadlines: Deadlines, requests: int, queued: int) -> None: ...
