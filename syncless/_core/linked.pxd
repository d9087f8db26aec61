"""A doubly linked list whose nodes are structs in their owners, so adding and removing allocate nothing.

For the waiters of a queue, the live tasklets of a loop, the deadlines of connections. An owner removes its
node before it ends.
"""

from cpython.object cimport PyObject

cdef struct Node:
    PyObject* owner             # borrowed; NULL: it is in no list
    Node* before
    Node* after

cdef struct LinkedList:
    Node* first
    Node* last


cdef inline void append(LinkedList* row, Node* node, PyObject* owner) noexcept:
    assert node.owner == NULL, "a node cannot be in two lists"
    node.owner = owner
    node.before = row.last
    node.after = NULL
    if row.last != NULL:
        row.last.after = node
    else:
        row.first = node
    row.last = node


cdef inline void insert_behind(LinkedList* row, Node* before, Node* node, PyObject* owner) noexcept:
    """`before`: NULL to be the first."""
    node.owner = owner
    node.before = before
    node.after = row.first if before == NULL else before.after
    if before != NULL:
        before.after = node
    else:
        row.first = node
    if node.after != NULL:
        node.after.before = node
    else:
        row.last = node


cdef inline void remove(LinkedList* row, Node* node) noexcept:
    assert node.owner != NULL, "a node that is in no list cannot be removed"
    if node.before != NULL:
        node.before.after = node.after
    else:
        row.first = node.after
    if node.after != NULL:
        node.after.before = node.before
    else:
        row.last = node.before
    node.owner = NULL
