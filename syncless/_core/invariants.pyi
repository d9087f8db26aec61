from syncless._core.scheduler import Scheduler

checked: bool

def check(loop: Scheduler) -> None: ...
