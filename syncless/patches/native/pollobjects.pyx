"""What an object of select.poll() watches: it keeps that in a dict which Python does not show."""

from cpython.object cimport PyObject

from syncless._core.cpython.layouts cimport SynclessPoll, require

require("poll objects")


def watched_by(poll) -> dict:
    """Descriptor -> events."""
    return <dict?> (<SynclessPoll*> <PyObject*> poll).watched
