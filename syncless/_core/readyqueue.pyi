class ReadyQueue:
    ring_count: int
