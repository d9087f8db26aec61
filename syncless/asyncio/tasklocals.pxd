"""Values of a task in threading.local. See tasklocals.pyx."""

from syncless._core.cpython.threadlocal cimport KeptLocals
from syncless.asyncio.handles cimport Calls

cdef KeptLocals lend_locals(Calls rounds, object task)
cdef int take_locals_back(Calls rounds, object task, KeptLocals lent) except -1
cdef int keep_for(object task, KeptLocals kept) except -1
