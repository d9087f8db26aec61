"""The exceptions of a tasklet that is killed."""


class TaskletExit(SystemExit):
    """Ends the tasklet in which it is raised, quietly (Stackless Python's name). Raised by Tasklet.kill()."""


class TaskletKilled(Exception):
    """Raised by Tasklet.result() when the tasklet was killed and so has no result."""
