"""Changes to types that Python code cannot change, their members and their slots; and built-in functions and
methods that stand in the place of others, and call a Python callable.

Fact: a function written in Python becomes a method where a class takes it over (`class X: read = os.read`), a
built-in one does not. Decision: a replacement of a built-in function is itself one, with the original's name,
module, signature and text, and is pickled by its name as the original is. The callable lies in the state of a
module object, which such a function has for its `self`.

Fact: a type takes its slots from its base when it is made, out of the wrapper, the special method in the
base's dictionary; super() calls that wrapper. Decision: a slot is replaced in its type, the wrapper, and in
all types below that have it. Guarded by tests/patches/test_areas.py::test_slots_of_types_are_given_back.
"""

from functools import wraps
from types import BuiltinFunctionType, ModuleType

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
    static void **syncless_slot(PyObject *type, size_t slot) { return (void **)((char *)type + slot); }
    static void **syncless_wrapped(PyObject *method) {
        return Py_TYPE(method) == &PyWrapperDescr_Type ? &((PyWrapperDescrObject *)method)->d_wrapped : NULL;
    }
    """
    void** syncless_slot(object type, size_t slot)
    void** syncless_wrapped(object method)
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


cdef void* slot_of(object type, size_t slot) noexcept:
    return syncless_slot(type, slot)[0]


cdef int replace_slot(object type, size_t slot, str name, void* old, void* new) except -1:
    """`name`: of the special method that the slot is."""
    cdef void** at = syncless_slot(type, slot)
    cdef void** wrapped = syncless_wrapped(type.__dict__.get(name))
    if at[0] == old:
        at[0] = new
    if wrapped != NULL and wrapped[0] == old:
        wrapped[0] = new
    for each in type.__subclasses__():
        replace_slot(each, slot, name, old, new)
    return 0


cdef extern from *:
    """
    static struct PyModuleDef syncless_holder = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "stand_in", .m_size = sizeof(PyObject *),
    };
    static PyObject *syncless_call(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
        return PyObject_Vectorcall(*(PyObject **) PyModule_GetState(self), args, (size_t) count, names);
    }
    static PyObject *syncless_stand_in(PyObject *original, PyObject *function, PyObject *module,
                                       const char *doc) {
        PyMethodDef *old = ((PyCFunctionObject *) original)->m_ml;
        PyMethodDef *method = PyMem_Malloc(sizeof(PyMethodDef)); /* for ever: it may be in use anywhere */
        PyObject *holder, *made;
        if (method == NULL)
            return PyErr_NoMemory();
        *method = (PyMethodDef) {old->ml_name, (PyCFunction) (void (*)(void)) syncless_call,
                                 METH_FASTCALL | METH_KEYWORDS, doc ? doc : old->ml_doc};
        holder = PyModule_Create(&syncless_holder);
        if (holder == NULL)
            return NULL;
        Py_INCREF(function);
        *(PyObject **) PyModule_GetState(holder) = function;
        made = PyCFunction_NewEx(method, holder, module);
        Py_DECREF(holder);
        return made;
    }
    """
    object syncless_stand_in(object original, object function, object module, const char* doc)


cdef list docs = []         # for ever, as the functions


def stand_in(original, function):
    """A built-in function for the function, if the original is one of a module; else the function itself."""
    if not isinstance(original, BuiltinFunctionType) or not isinstance(original.__self__, ModuleType):
        return function
    if isinstance(function, type) or not hasattr(type(function), "__get__"):
        return function             # it does not bind either
    cdef const char* doc = NULL
    if original.__text_signature__ is not None:  # Python 3.13 makes it for functions whose text has none
        signature = f"{original.__name__}{original.__text_signature__}"
        docs.append(f"{signature}\n--\n\n{original.__doc__ or ''}".encode())
        doc = docs[len(docs) - 1]
    made = syncless_stand_in(original, function, original.__module__, doc)
    made.__self__.__name__ = original.__self__.__name__
    return made


def stand_in_method(original, before):
    """A method that calls before(self) and then the original. It has no frame, so a warning that the original
    gives in C names the line of the caller."""
    def method(self, *args, **kwargs):
        before(self)
        return original(self, *args, **kwargs)
    return wraps(original)(method)
