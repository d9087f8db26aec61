"""What the check cannot know by itself, with reasons. A function is `Class.method` or `module.function`."""

from __future__ import annotations

import re

# calls that look as if they ran Python code, and do not let others run: name -> why
NEVER: dict[str, str] = {
    "Scheduler._stops": "nobody is the current tasklet meanwhile, so nothing that it calls waits",
    "stream.drop_unsent": "what is to be sent is exactly bytes",
    "stream.set_out_body": "what is to be sent is exactly bytes",
    "clock.clock_ns": "it reads a clock, the system's or a virtual one",
    "scheduler.take_first": "its caller has a reference",
    "scheduler.remove_item": "its caller has a reference",
    "Runner.owner_of_locks": "asyncio looks into a dict",
    "ASGIExchange.owner_of_locks": "asyncio looks into a dict",
    "SelectPoller.wait": "it drops numbers",
    "threadloop.get_loop": "a thread that has no loop yet has no tasklets",
    "threadloop.peek_loop": "it calls anything only where a child begins, in which no other tasklet runs",
    "scheduler.take_back": "its caller has a reference",
}

# fields with functions that do not switch -> why
STILL: dict[str, str] = {
    "due": "explore.pyx or testing/choices.pyx draws a number",
    "choose": "they order the ready queue",
    "woken": "explore.pyx wakes its watcher, which runs later",
}

# functions of C that run Python code, or switch
SWITCHING = re.compile(
    r"Py_X?DECREF|Py_CLEAR|Py_X?SETREF|PyGreenlet_\w*(Switch|Throw)|PyErr_CheckSignals|PyImport_\w+|PyGC_Collect"
    r"|PyObject_(Call\w*|Vectorcall\w*|GetAttr\w*|SetAttr\w*|Str|Repr|IsTrue|RichCompare\w*|GetItem|SetItem|Hash)"
    r"|PyNumber_\w+|PySequence_\w+|PyIter_Next|PyEval_(?!GetFrame)\w+|PyRun_\w+|PyMapping_\w+"
)

# functions of C whose result points into what they are given
POINTING = re.compile(r"mem\w*|str\w+|Py\w+_(AS_STRING|DATA|AsUTF8\w*|AsString\w*|GET_ITEM|GET_BUFFER)")
# those that lend what may go while others run
BORROWED = re.compile(r"Py\w+_Get(Item\w*|Dict)|PyEval_GetFrame|PyWeakref_GetObject")

# functions of C that never return NULL, or whose caller finds an exception set
NOT_NULL: dict[str, str] = {
    "PyBytes_AS_STRING": "a macro: an address in the object",
    "PyByteArray_AS_STRING": "a macro: an address in the object",
    "PyUnicode_DATA": "a macro: an address in the object",
    "PyTuple_GET_ITEM": "a macro: a field of a tuple that is full",
    "PyList_GET_ITEM": "a macro: a field of a list that is full",
    "PyMemoryView_GET_BUFFER": "a macro: an address in the object",
    "values_entry": "an address in the region, by the number of a cell",
    "PyFrame_GetCode": "each frame has one",
    "PyGreenlet_GetCurrent": "a thread that runs has one",
    "syncless_slot": "an address in a type",
    "syncless_type_dict": "a type has one",
    "thread_for": "an address in the array of threads",
}

# pointers in fields that are what they were, whatever runs: (class or struct, field) -> why
STEADY: dict[tuple[str, str], str] = {
    ("ReadyQueue", "ring"): "made and freed with its loop",
    ("Py_buffer", "buf"): "exported until the buffer is released",
    ("syncless._core.scheduler.BaseTasklet", "why"): "a literal",
    ("syncless.http.log.loglines.AccessLog", "atoms"): "made and freed with it",
    ("syncless.http.request.Request", "keys"): "made by a module, never freed",
    ("message", "next"): "it is its list's",
    ("Incoming", "data"): "lent until return_input()",
    ("Incoming", "found"): "on the stack of the caller",
}

# pointers in fields that are never NULL where they are read: (class or struct, field) -> why
FULL: dict[tuple[str, str], str] = {
    ("Node", "owner"): "a node in a list has one",
    ("server", "routes"): "Threads has them before it has a connection",
}

# object fields whose None lets nothing go, because something else has the object: field -> what
NOT_LAST: dict[str, str] = {
    "current": "the loop's list of live tasklets",
    "kept": "a local variable of its callers",
}

# a look at the first field is one at the second, beside it: -> why
VOUCHES: dict[tuple[str, str], str] = {
    ("stream", "owner"): "Peer.begin() and end() set both",
    ("owner", "stream"): "Peer.begin() and end() set both",
    ("size", "data"): "an empty buffer has no memory",
    ("room", "data"): "an empty buffer has no memory",
    ("open", "session.library"): "lost() ends both",
    ("runner", "engine"): "Dispatcher.end_run() ends both",
    ("closed", "fd"): "a TlsLayer's is set before the descriptor is closed",
}

# a pointer into an object that another field beside it keeps: it is good while that is in a local variable
KEPT_BY: dict[tuple[str, str], str] = {
    ("syncless.http.peer.Peer", "stream"): "owner",
    ("Incoming", "stream"): "connection",
}

# functions of ours whose result is good until the caller gives it back: -> why
OWNED: dict[str, str] = {
    "Threads.take_messages": "the caller frees them",
    "Scheduler._next_carrier": "an idle carrier stays where it is, and a hook does not wait",
    "fileio.opened": "it lies in the file object, which the caller has",
}

# what a function uses after a switch, and why that is good: (function, parameter) -> why
LATE: dict[tuple[str, str], str] = {
    ("current.wait_in", "queue"): "it lies in `on`, which the caller keeps",
    ("current.wait_fd", "fd"): "a place in the table, of a queue in which the tasklet still stands",
    ("current.wait_foreign_fd", "fd"): "a place in the table; it counts how often the number was closed",
    ("descriptors.transfer", "fd"): "a number of the caller's, as for read(2) in a thread",
    ("descriptors.read_into", "fd"): "the same",
    ("descriptors.write_from", "fd"): "the same",
    ("fileio.rest_of_file", "fd"): "the same",
    ("ASGIApplication.take_back", "fd"): "a memory is known by its serial, too",
    ("threadlocal.end_idle_slots", "locals"): "those of the running tasklet",
    ("recorder.look", "wait"): "a place in the recorder, which the caller has",
    ("TlsLayer.receive", "into"): "its owner leaves it alone while the layer is at work",
}

BUILTINS = set(
    "len isinstance issubclass type range id callable min max abs ord chr iter enumerate zip reversed"
    " getattr any all sum sorted next hasattr bytes bytearray int float bool tuple list dict set frozenset"
    " object super memoryview slice".split()
)
"""Of Python, which run no code of others for what we give them."""

SAFE_TYPES = {"bytes", "str", "unicode", "int", "float", "bool", "bytearray", "type", "memoryview"}
"""To drop one of these runs no code."""
BUILTIN_TYPES = SAFE_TYPES | {"list", "dict", "tuple", "set", "frozenset"}

DESCRIPTOR = re.compile(r"(?:^|_)fd$")
FREEING = {
    "free",
    "PyMem_Free",
    "PyObject_Free",
    "PyMem_RawFree",
    "Py_XDECREF",
    "realloc",
    "PyMem_Realloc",
    "PyMem_RawRealloc",
}
"""Functions that take NULL."""

DEEPEST = 6
"""Fields of a path that a function asks its callers to look at."""
