"""Changes to what Python code cannot change: members and slots of types, and built-in functions and methods
(functions.py).

Trace and profile functions see nothing of a replacement, as of a function in C: a debugger that steps into
time.sleep() goes on at the next line.

Fact: a type takes its slots from its base when it is made, out of the wrapper, the special method in the
base's dictionary; super() calls that wrapper. Decision: a slot is replaced in its type, the wrapper, and in
all types below that have it. Guarded by tests/patches/test_areas.py::test_slots_of_types_are_given_back.
"""

from functools import wraps
from types import BuiltinFunctionType

from cpython.dict cimport PyDict_DelItem, PyDict_SetItem
from cpython.object cimport PyObject
from libc.stdint cimport uintptr_t

from syncless._core.cpython.tracing cimport is_watched  # no-cython-lint: for the C code below

cdef extern from *:
    """
    static PyObject *syncless_type_dict(PyObject *type) {       /* a borrowed reference */
    #if PY_VERSION_HEX >= 0x030C0000
        PyObject *members = PyType_GetDict((PyTypeObject *)type);   /* the interpreter has that of datetime */
        Py_DECREF(members);
        return members;
    #else
        return ((PyTypeObject *)type)->tp_dict;
    #endif
    }
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
    """Set a member of a type, immutable or not; delete it if the value is None. Return what was there, or
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
    struct syncless_place {                 /* the state of a module object, in a changed function's `self` */
        PyObject *other, *self;
        PyMethodDef *method;
        vectorcallfunc call;
        Py_hash_t hash;
    };
    static int syncless_traverse(PyObject *holder, visitproc visit, void *arg) {
        struct syncless_place *place = PyModule_GetState(holder);
        if (place != NULL) {
            Py_VISIT(place->other);
            Py_VISIT(place->self);
        }
        return 0;
    }
    static int syncless_clear(PyObject *holder) {
        struct syncless_place *place = PyModule_GetState(holder);
        if (place != NULL) {
            Py_CLEAR(place->other);
            Py_CLEAR(place->self);
        }
        return 0;
    }
    static void syncless_free(void *holder) { syncless_clear(holder); }
    static struct PyModuleDef syncless_holder = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "place", .m_size = sizeof(struct syncless_place),
        .m_traverse = syncless_traverse, .m_clear = syncless_clear, .m_free = syncless_free,
    };
    static inline void syncless_pause_tracing(PyThreadState *state, int step) {
        state->tracing += step;
    #if PY_VERSION_HEX < 0x030C0000
        int traced = !state->tracing && (state->c_tracefunc || state->c_profilefunc);
        state->cframe->use_tracing = traced ? 255 : 0;
    #endif
    }
    static PyObject *syncless_call_other(
            PyObject *other, PyObject *const *args, size_t count, PyObject *names) {
        PyObject *made;
        PyThreadState *state = PyThreadState_Get();
        int watched = syncless_is_watched(state);
        Py_INCREF(other);                   /* the call may take the change back */
        if (watched)
            syncless_pause_tracing(state, SYNCLESS_PAUSED);
        made = PyObject_Vectorcall(other, args, count, names);
        if (watched)
            syncless_pause_tracing(state, -SYNCLESS_PAUSED);
        Py_DECREF(other);
        return made;
    }
    static PyObject *syncless_call(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
        struct syncless_place *place = PyModule_GetState(self);
        return syncless_call_other(place->other, args, (size_t) count, names);
    }
    static PyObject *syncless_copy_of(PyObject *original) {
        PyCFunctionObject *old = (PyCFunctionObject *) original;
        PyMethodDef *method = PyMem_Malloc(sizeof(PyMethodDef)); /* for ever, as the function */
        if (method == NULL)
            return PyErr_NoMemory();
        *method = *old->m_ml;
        return PyCMethod_New(method, old->m_self, old->m_module, PyCFunction_GET_CLASS(original));
    }
    static PyObject *syncless_own_function(PyObject *module, const char *name) {
        PyModuleDef *made_of = PyModule_GetDef(module);
        PyMethodDef *method = made_of ? made_of->m_methods : NULL;
        PyObject *its_name, *made;
        while (method && method->ml_name && strcmp(method->ml_name, name))
            method++;
        if (method == NULL || method->ml_name == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_AttributeError, name);
            return NULL;
        }
        its_name = PyModule_GetNameObject(module);
        if (its_name == NULL)
            return NULL;
        made = PyCFunction_NewEx(method, module, its_name);
        Py_DECREF(its_name);
        return made;
    }
    static PyMethodDef *syncless_method_like(PyObject *original, const char *doc) {
        PyMethodDef *old = ((PyCFunctionObject *) original)->m_ml;
        PyMethodDef *method = PyMem_Malloc(sizeof(PyMethodDef));
        if (method == NULL)
            PyErr_NoMemory();
        else
            *method = (PyMethodDef) {old->ml_name, (PyCFunction) (void (*)(void)) syncless_call,
                                     METH_FASTCALL | METH_KEYWORDS, doc ? doc : old->ml_doc};
        return method;
    }
    static PyMethodDef *syncless_method_of(PyObject *function) {
        return ((PyCFunctionObject *) function)->m_ml;
    }
    static int syncless_change(PyObject *function, PyMethodDef *method, PyObject *other, PyObject *name) {
        PyCFunctionObject *changed = (PyCFunctionObject *) function, *like;
        PyObject *holder = PyModule_Create(&syncless_holder);
        struct syncless_place *place;
        if (holder == NULL)
            return -1;
        like = PyObject_SetAttrString(holder, "__name__", name) ? NULL :
            (PyCFunctionObject *) PyCFunction_NewEx(method, holder, changed->m_module);
        if (like == NULL) {
            Py_DECREF(holder);
            return -1;
        }
        place = PyModule_GetState(holder);
        Py_INCREF(other);
        *place = (struct syncless_place) {
            other, changed->m_self, changed->m_ml, changed->vectorcall, Py_TYPE(function)->tp_hash(function)};
        changed->m_self = holder;
        changed->m_ml = method;
        changed->vectorcall = like->vectorcall;
        Py_DECREF(like);
        return 0;
    }
    static hashfunc syncless_usual_hash = NULL;
    static Py_hash_t syncless_hash(PyObject *function) {
        PyCFunctionObject *changed = (PyCFunctionObject *) function;
        if (changed->m_ml->ml_meth == (PyCFunction) (void (*)(void)) syncless_call)
            return ((struct syncless_place *) PyModule_GetState(changed->m_self))->hash;
        return syncless_usual_hash(function);
    }
    static void syncless_change_back(PyObject *function) {
        PyCFunctionObject *changed = (PyCFunctionObject *) function;
        PyObject *holder = changed->m_self;
        struct syncless_place *place = PyModule_GetState(holder);
        changed->m_self = place->self;
        place->self = NULL;
        changed->m_ml = place->method;
        changed->vectorcall = place->call;
        Py_DECREF(holder);
    }

    struct syncless_method {                /* d_method of a changed method */
        PyMethodDef method;                 /* first: the interpreter sees only this */
        PyObject *other;
        PyMethodDef *before;
        vectorcallfunc call;
    };
    static PyObject *syncless_copy_of_method(PyObject *original) {
        PyMethodDescrObject *old = (PyMethodDescrObject *) original;
        return PyDescr_NewMethod(old->d_common.d_type, old->d_method);
    }
    static PyObject *syncless_call_method(
            PyObject *method, PyObject *const *args, size_t count, PyObject *names) {
        PyMethodDescrObject *changed = (PyMethodDescrObject *) method;
        struct syncless_method *place = (struct syncless_method *) changed->d_method;
        if (!PyVectorcall_NARGS(count) || !PyObject_TypeCheck(args[0], changed->d_common.d_type))
            return place->call(method, args, count, names); /* refuses it */
        return syncless_call_other(place->other, args, count, names);
    }
    static int syncless_change_method(PyObject *method, PyObject *other) {
        PyMethodDescrObject *changed = (PyMethodDescrObject *) method;
        struct syncless_method *place = PyMem_Malloc(sizeof(struct syncless_method));   /* for ever */
        if (place == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        Py_INCREF(other);
        *place = (struct syncless_method) {*changed->d_method, other, changed->d_method, changed->vectorcall};
        place->method.ml_flags |= METH_COEXIST;
        changed->d_method = &place->method;
        changed->vectorcall = syncless_call_method;
        return 0;
    }
    static void syncless_change_method_back(PyObject *method) {
        PyMethodDescrObject *changed = (PyMethodDescrObject *) method;
        struct syncless_method *place = (struct syncless_method *) changed->d_method;
        changed->d_method = place->before;
        changed->vectorcall = place->call;
        Py_CLEAR(place->other);             /* what was bound meanwhile has the rest of it */
    }
    """
    ctypedef struct PyMethodDef:
        pass
    object syncless_copy_of_method(object original)
    int syncless_change_method(object method, object other) except -1
    void syncless_change_method_back(object method)
    object syncless_copy_of(object original)
    object syncless_own_function(object module, const char* name)
    PyMethodDef* syncless_method_like(object original, const char* doc) except NULL
    PyMethodDef* syncless_method_of(object function)
    int syncless_change(object function, PyMethodDef* method, object other, object name) except -1
    void syncless_change_back(object function)
    size_t HASH "offsetof(PyTypeObject, tp_hash)"
    ctypedef Py_hash_t (*hashfunc)(object function) except -1
    hashfunc syncless_usual_hash
    Py_hash_t syncless_hash(object function) except -1


cdef list docs = []         # for ever, as the next
cdef dict methods = {}      # the PyMethodDef of a function that was changed -> ours


def copy_of_method(method):
    """As copy_of_builtin(), of a method of a type, without an object."""
    return syncless_copy_of_method(method)


def change_method(method, other):
    """As change_builtin(), for a method of a type.

    Fact: the interpreter calls a method that it has met before by the C function and the exact flags of its
    PyMethodDef, past the method's own call. Decision: ours has a flag more, which means nothing to it here.
    Guarded by tests/patches/test_kept.py."""
    syncless_change_method(method, other)


def change_method_back(method):
    """Take change_method() back."""
    syncless_change_method_back(method)


def copy_of_builtin(function):
    """Another object with what the function is now."""
    return syncless_copy_of(function)


def own_function(module, str name):
    """Return the built-in function with which the module was made, whatever anybody has put in its place
    since.

    Fact: a debugger puts its own functions in the place of those that start threads. Danger: it then traces
    and names the threads that do its own calls, and waits for itself. Decision: our helpers start by the
    function itself, as no thread of the program. Guarded by
    tests/patches/test_tools.py::test_debugpy_writes_its_log.
    """
    return syncless_own_function(module, name.encode())


cdef PyMethodDef* method_for(object function) except NULL:
    cdef const char* doc = NULL
    key = <uintptr_t> syncless_method_of(function)
    made = methods.get(key)
    if made is None:
        if function.__text_signature__ is not None:  # Python 3.13 makes it for functions whose text has none
            signature = f"{function.__name__}{function.__text_signature__}"
            docs.append(f"{signature}\n--\n\n{function.__doc__ or ''}".encode())
            doc = docs[len(docs) - 1]
        made = methods[key] = <uintptr_t> syncless_method_like(function, doc)
    return <PyMethodDef*> <uintptr_t> made


def change_builtin(function, other):
    """The built-in function or bound method, which stays the same object, calls the other one from now on.

    Fact: its hash is made of its insides. Danger: it is not found in a set, such as os.supports_fd. Decision:
    it keeps its hash, by a slot of its type, which stays. Guarded by tests/patches/test_kept.py."""
    global syncless_usual_hash
    if syncless_usual_hash == NULL:
        syncless_usual_hash = <hashfunc> slot_of(BuiltinFunctionType, HASH)
        replace_slot(
            BuiltinFunctionType, HASH, "__hash__", <void*> syncless_usual_hash, <void*> syncless_hash)
    syncless_change(function, method_for(function), other, getattr(function.__self__, "__name__", ""))


def change_builtin_back(function):
    """Take change_builtin() back."""
    syncless_change_back(function)


def stand_in_method(original, before):
    """Return a method that calls before(self) and then the original. It has no frame, so a warning that the
    original gives in C names the line of the caller."""
    def method(self, *args, **kwargs):
        before(self)
        return original(self, *args, **kwargs)
    return wraps(original)(method)
