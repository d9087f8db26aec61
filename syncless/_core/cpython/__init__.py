"""All that knows the insides of an interpreter or of greenlet: the one folder to open for a new Python."""
