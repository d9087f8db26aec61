class Poller:
    name: str
    wake_fd: int
