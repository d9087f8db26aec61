"""The ready queue's table of contents. See readyqueue.pyx."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF


cdef struct ReadyQueue:         # embedded in its owner
    PyObject** ring             # owned references
    size_t head
    size_t mask                 # places in the ring, less one; there are 2**n
    size_t count

cdef int begin_queue(ReadyQueue* queue) except -1
cdef void free_queue(ReadyQueue* queue) noexcept
cdef int grow(ReadyQueue* queue) except -1

cdef int add_first(ReadyQueue* queue, object item) except -1
cdef int remove_item(ReadyQueue* queue, object item) except -1
cdef Py_ssize_t place_of(ReadyQueue* queue, object item) noexcept
cdef void rotate(ReadyQueue* queue, Py_ssize_t n) noexcept


cdef inline int add_last(ReadyQueue* queue, object item) except -1:
    if queue.count > queue.mask:
        grow(queue)
    Py_INCREF(item)
    queue.ring[(queue.head + queue.count) & queue.mask] = <PyObject*> item
    queue.count += 1
    return 0


cdef inline PyObject* item_at(ReadyQueue* queue, size_t i) noexcept:
    """The item before which there are i others; borrowed."""
    return queue.ring[(queue.head + i) & queue.mask]


cdef inline object take_first(ReadyQueue* queue):
    """Removes and returns the first item. There is one."""
    cdef PyObject* item = queue.ring[queue.head]
    assert queue.count > 0
    queue.head = (queue.head + 1) & queue.mask
    queue.count -= 1
    owned = <object> item
    Py_DECREF(owned)
    return owned
