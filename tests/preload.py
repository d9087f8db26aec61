"""`make sanitize` preloads the sanitizers' runtime, which is for Python only."""

import os


def without_preload():
    """The environment for programs that are not Python's: `initdb` and curl hang with the sanitizers'
    runtime."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
