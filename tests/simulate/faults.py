"""Calls of the system that do half of what they could, or fail: see tests/failing_calls.c."""

import ctypes

_library = ctypes.CDLL(None)
AVAILABLE = hasattr(_library, "fail_at_random")


class Faults:
    """Those of one episode at a time."""

    def begin(self, seed, chance):
        """How often comes from the episode's chance. Whether connections may lack descriptors."""
        harmless, harmful, scarce = (
            chance.choice(choices) for choices in ([0, 3, 10, 40], [0, 0, 10, 50], [0, 0, 0, 4])
        )
        if AVAILABLE:
            _library.fail_at_random(ctypes.c_ulonglong(seed * 2 + 1), harmless, harmful, scarce)
        return bool(scarce)

    def end(self):
        """How many there were."""
        return int(_library.stop_failing()) if AVAILABLE else 0
