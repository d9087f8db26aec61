"""The old location of request slots, which have moved to server/slots.py."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("syncless.server.slots")
