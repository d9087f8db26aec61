"""`application` for servers that import it: the one that the environment variable APPLICATION names."""

import os

from apps import named

application = named(os.environ["APPLICATION"])
