"""Changes to types that Python code cannot change: their members, and their slots (typeslots.pxd)."""

from cpython.dict cimport PyDict_DelItem, PyDict_SetItem
from cpython.object cimport PyObject

cdef extern from *:
    """
    static PyObject *syncless_type_dict(PyObject *type) { return ((PyTypeObject *)type)->tp_dict; }
    static void syncless_type_modified(PyObject *type) { PyType_Modified((PyTypeObject *)type); }
    static int syncless_has_slots_of(PyObject *type) {
        return PyType_HasFeature((PyTypeObject *)type, Py_TPFLAGS_HEAPTYPE);
    }
    static int syncless_set_slot(PyObject *type, PyObject *name, PyObject *value) {
        PyTypeObject *changed = (PyTypeObject *)type;
        unsigned long immutable = changed->tp_flags & Py_TPFLAGS_IMMUTABLETYPE;
        changed->tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
        int failed = PyType_Type.tp_setattro(type, name, value);
        changed->tp_flags |= immutable;
        return failed;
    }
    """
    PyObject* syncless_type_dict(object type)
    void syncless_type_modified(object type)
    bint syncless_has_slots_of(object type)
    int syncless_set_slot(object type, object name, PyObject* value) except -1


def set_in_type(type, name, value):
    """Sets a member of a type, immutable or not; deletes it if the value is None. Returns what was there, or
    None.

    Of a type that is made at run time it also sets the slot that the interpreter calls for a special method.
    """
    members = <object> syncless_type_dict(type)
    old = members.get(name)
    if syncless_has_slots_of(type):
        syncless_set_slot(type, name, NULL if value is None else <PyObject*> value)
        return old
    if value is None:
        PyDict_DelItem(members, name)
    else:
        PyDict_SetItem(members, name, value)
    syncless_type_modified(type)
    return old
