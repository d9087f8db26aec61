"""The ready queue: a ring of owned references that doubles.

It does not know what an item is. Its functions that change the order are for Stackless.
"""

cdef enum:
    FIRST_CAPACITY = 256


cdef int begin_queue(ReadyQueue* queue) except -1:
    queue.ring = <PyObject**> PyMem_Malloc(FIRST_CAPACITY * sizeof(PyObject*))
    if queue.ring == NULL:
        raise MemoryError
    queue.mask = FIRST_CAPACITY - 1
    return 0


cdef void free_queue(ReadyQueue* queue) noexcept:
    """The owner ends. It has taken all items out."""
    PyMem_Free(queue.ring)


cdef int grow(ReadyQueue* queue) except -1:
    cdef PyObject** grown = <PyObject**> PyMem_Malloc((queue.mask + 1) * 2 * sizeof(PyObject*))
    cdef size_t i
    if grown == NULL:
        raise MemoryError
    for i in range(queue.count):
        grown[i] = item_at(queue, i)
    PyMem_Free(queue.ring)
    queue.ring = grown
    queue.head = 0
    queue.mask = queue.mask * 2 + 1
    return 0


cdef int add_first(ReadyQueue* queue, object item) except -1:
    if queue.count > queue.mask:
        grow(queue)
    Py_INCREF(item)
    queue.head = (queue.head - 1) & queue.mask
    queue.ring[queue.head] = <PyObject*> item
    queue.count += 1
    return 0


cdef Py_ssize_t place_of(ReadyQueue* queue, object item) noexcept:
    """Return how many are before it; -1 if it is not there."""
    cdef size_t i
    for i in range(queue.count):
        if item_at(queue, i) == <PyObject*> item:
            return i
    return -1


cdef int remove_item(ReadyQueue* queue, object item) except -1:
    """Take it out, if it is there."""
    cdef Py_ssize_t i, at = place_of(queue, item)
    if at < 0:
        return 0
    for i in range(at, <Py_ssize_t> queue.count - 1):
        queue.ring[(queue.head + i) & queue.mask] = item_at(queue, i + 1)
    queue.count -= 1
    Py_DECREF(item)
    return 0


cdef void rotate(ReadyQueue* queue, Py_ssize_t n) noexcept:
    """The first n go to the end, in their order."""
    cdef PyObject* item
    cdef Py_ssize_t _
    for _ in range(n):
        item = queue.ring[queue.head]
        queue.ring[(queue.head + queue.count) & queue.mask] = item
        queue.head = (queue.head + 1) & queue.mask
