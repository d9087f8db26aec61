"""The slots of requests by their old place: they are server/slots.py."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("syncless.server.slots")
