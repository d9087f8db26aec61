"""The descriptors that an object of select.poll() watches. Python does not show the dict that has them."""

from cpython.object cimport PyObject

from syncless._core.cpython.layouts cimport SynclessPoll, require

require("poll objects")


def watched_by(poll) -> dict:
    """Descriptor -> events."""
    return <dict?> (<SynclessPoll*> <PyObject*> poll).watched
