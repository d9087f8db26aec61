class Unsent:
    size: int
