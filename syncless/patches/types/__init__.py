"""Native code that only the patch uses."""
