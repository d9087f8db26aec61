"""tests/switches: what it finds in small modules, and what it lets pass; the whole tree is `make lint`'s."""

import itertools

import pytest

from tests.switches import results
from tests.switches.program import Program

BEGIN = """
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport malloc, realloc
from libc.string cimport memchr
cdef extern from "library.h":
    ctypedef struct library_t:
        int n
    void submit(library_t* library)
    void delete(library_t* library)

cdef struct Bytes:
    char* data
    int size

cdef class Session:
    cdef library_t* library
    cdef Other other
    cdef object log
    cdef int fd
    cdef Bytes out
    cdef int lost(self) except -1:
        delete(self.library)
        self.library = NULL
        self.other = None
        return 0
    cdef int quiet(self) except -1:
        self.fd = -1
        return 0

cdef class Other:
    cdef Session session
    cdef int tell(self) except -1:
        self.session.log("")
        return 0
    cdef int tell_more(self) except -1:
        return self.tell()

cdef class Loud(Session):
    cdef int quiet(self) except -1:
        self.log.write("")
        return 0

cdef void send(Session session) noexcept:
    submit(session.library)

cdef int use_later(Session session, const char* text) except -1:
    session.log("")
    return text[0]

"""
numbers = itertools.count()


def findings(folder, body):
    path = folder / f"example{next(numbers)}.pyx"
    path.write_text(BEGIN + body)
    program = Program()
    program.read([path], folder)
    program.study()
    return [text for _, _, text in sorted(program.findings)]


FOUND = {
    "a local pointer after a call of Python": (
        "library was loaded before",
        """
cdef int f(Session session) except -1:
    cdef library_t* library = session.library
    if library == NULL:
        return 0
    session.log("")
    submit(library)
""",
    ),
    "a field that a function called after it uses": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    session.log("")
    send(session)
""",
    ),
    "a look at a local copy is one at the field": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    cdef library_t* library = session.library
    if library != NULL:
        session.log("")
        send(session)
""",
    ),
    "the second round of a loop": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    while session.fd:
        send(session)
        session.log("")
""",
    ),
    "a handler of what a switch raised": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    try:
        session.log("")
    except ValueError:
        submit(session.library)
""",
    ),
    "a method that a subclass overrides": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    session.quiet()
    submit(session.library)
""",
    ),
    "an import": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    import json
    submit(session.library)
""",
    ),
    "the end of an object": (
        "session.library may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    session.log = None
    submit(session.library)
""",
    ),
    "a descriptor": (
        "fd was loaded before",
        """
cdef extern from "unistd.h":
    int close(int fd)
cdef int f(Session session) except -1:
    cdef int fd = session.fd
    session.log("")
    return close(fd)
""",
    ),
    "a borrowed buffer, in a function called": (
        "text of",
        """
cdef int f(Session session) except -1:
    return use_later(session, session.out.data)
""",
    ),
    "an object of a field, None after a switch": (
        "session.other may be NULL or None",
        """
cdef int f(Session session) except -1:
    if session.other is None:
        return 0
    session.log("")
    return session.other.session.fd
""",
    ),
    "an object that nothing keeps": (
        "nothing keeps session.other alive",
        """
cdef int f(Session session) except -1:
    if session.other is not None:
        return session.other.tell_more()
""",
    ),
    "memchr": (
        "colon may be NULL: memchr()",
        """
cdef Py_ssize_t f(char* text, int size) noexcept:
    cdef char* colon = <char*> memchr(text, c":", size)
    while text < colon:
        text += 1
    return colon - text
""",
    ),
    "malloc, used at once": (
        "the result of malloc() may be NULL",
        """
cdef void f() noexcept:
    (<char*> malloc(5))[0] = 1
""",
    ),
}

PASSES = {
    "a new look at the field": """
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    session.log("")
    if session.library != NULL:
        send(session)
""",
    "a new load of the local variable": """
cdef int f(Session session) except -1:
    cdef library_t* library = session.library
    session.log("")
    library = session.library
    if library != NULL:
        submit(library)
""",
    "a switch on a path that returns": """
cdef int f(Session session) except -1:
    cdef library_t* library = session.library
    if library == NULL:
        return session.log("") is None
    submit(library)
""",
    "a call that does not switch": """
cdef int look(Session session) except -1:
    return session.out.size
cdef int f(Session session) except -1:
    if session.library == NULL:
        return 0
    look(session)
    send(session)
""",
    "an address in an object that the function has": """
cdef int f(Session session) except -1:
    cdef Bytes* out = &session.out
    session.log("")
    return out.size
""",
    "memory of its own": """
cdef int f(Session session) except -1:
    cdef char* memory = <char*> malloc(5)
    if memory == NULL:
        raise MemoryError
    session.log("")
    memory[0] = 1
""",
    "a buffer on the stack, in a function called": """
cdef int f(Session session) except -1:
    cdef char text[10]
    return use_later(session, text)
""",
    "a pointer that was moved here": """
cdef int f(Session session) except -1:
    cdef library_t* library = session.library
    session.library = NULL
    session.log("")
    if library != NULL:
        delete(library)
""",
    "an object that a local variable keeps": """
cdef int f(Session session) except -1:
    other = session.other
    return 0 if other is None else other.tell_more()
""",
    "a helper that looks": """
cdef Session looked(Session session):
    if session.library == NULL:
        raise ValueError
    return session
cdef int f(Session session) except -1:
    session.log("")
    looked(session)
    send(session)
""",
    "memchr that is looked at": """
cdef Py_ssize_t f(char* text, int size) noexcept:
    cdef char* colon = <char*> memchr(text, c":", size)
    return 0 if colon == NULL else colon - text
""",
}


@pytest.mark.parametrize("name", FOUND)
def test_use_without_a_new_look_is_found(tmp_path, name):
    expected, body = FOUND[name]
    found = findings(tmp_path, body)
    assert found and all(expected in each for each in found)


@pytest.mark.parametrize("name", PASSES)
def test_use_after_a_new_look_passes(tmp_path, name):
    assert findings(tmp_path, PASSES[name]) == []


UNLOOKED = (
    "char *p = malloc(5);\np[0] = 1;",
    "t->room = realloc(t->room, 9);\nmemcpy(t->room, from, 9);",
    "size = strchr(text, ':') - text;",
    "copy(strdup(text));",
    "stop = memchr(p, '/', end - p);\nwhile (p < stop)\n    p++;",
    "one->name = name ? strdup(name) : NULL;\nputs(one->name);",
)
LOOKED = (
    "char *p = malloc(5); /* p is used */\nif (!p)\n    return -1;\np[0] = 1;",
    "if (!(t->room = (char *)realloc(t->room, 9)))\n    return -1;\nmemcpy(t->room, from, 9);",
    "if (strchr(text, ':') == NULL || strchr(text, '$'))\n    return 0;",
    "stop = memchr(p, '/', end - p);\nsize = (stop ? stop : end) - p;",
    "known = memchr(p, '%', n) != NULL;",
    "return malloc(5);",
    "if ((p = malloc(n)) == NULL)\n    return -1;\n*p = 0;",
)


@pytest.mark.parametrize("text", UNLOOKED)
def test_result_of_c_that_is_not_looked_at_is_found(text):
    assert len(list(results.unlooked(text))) == 1


@pytest.mark.parametrize("text", LOOKED)
def test_result_of_c_that_is_looked_at_passes(text):
    assert list(results.unlooked(text)) == []
