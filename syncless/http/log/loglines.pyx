"""AccessLog: a line for each response, put together without a Python string of its own and held back until it
is written.

Takes what accesslog.py has made of a format. Everything that a client can choose is escaped, so that nobody
can forge a line or a field: as \\xHH in text (Apache's way), as \\u00HH in JSON, percent-encoded in the
request line.
"""

import time

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy
from libc.time cimport time as time_now
from libc.time cimport time_t

from syncless._core.clock cimport monotonic_ns
from syncless._core.current cimport begin_still, end_still
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.threadloop cimport peek_loop
from syncless.http.request cimport METHOD, PATH, QUERY, ROOT_PATH, UNREAD_LINE, VERSION, Part, Request
from syncless.http.wire.wire cimport HEAD_UNKNOWN, LOG_HELD

from syncless._core.wait.sync import Event
from syncless.http.request import known_field, part_of

cdef extern from "Python.h":
    PyObject* dict_get "PyDict_GetItemWithError" (PyObject* values, PyObject* key) except? NULL
    int PyUnicode_KIND(object s)
    void* PyUnicode_DATA(object s)
    Py_ssize_t PyUnicode_GET_LENGTH(object s)

cdef enum:
    # bytes held back that ask to be written: a thread is asked so often, which costs as much as many lines
    WRITTEN_AT = 1 << 18
    SHORT = 16                  # bytes

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# Bytes that stand for themselves: in a quoted string, and in a logged URL.
cdef char plain[256]
cdef char url_safe[256]
cdef int _c
for _c in range(0x20, 0x7f):
    plain[_c] = _c != c'"' and _c != c"\\"
    url_safe[_c] = chr(_c).isalnum() or chr(_c) in "-._~!$&'()*+,;=:@/"

# What is told of bytes that were refused, which have no exchange.
cdef dict REFUSED = {"ending": "-"}


cdef class AccessLog:
    """AccessLog(atoms, json): the atoms are pairs of a Kind's name and its key; `log()` is called by the
    server, `take()` by who writes."""

    def __init__(self, list atoms not None, bint json):
        cdef int i
        kinds = {
            "literal": LITERAL, "field": FIELD, "variable": VARIABLE, "request line": REQUEST_LINE,
            "path": FULL_PATH, "query": FULL_QUERY, "status": STATUS, "body bytes": BODY_BYTES,
            "body bytes, a number": BODY_BYTES_NUMBER, "stamp": STAMP, "strftime": STRFTIME,
            "duration": DURATION, "exchange": OF_EXCHANGE, "response field": RESPONSE_FIELD,
        }
        self.atoms = <Atom*> PyMem_Malloc(len(atoms) * sizeof(Atom))
        if self.atoms == NULL:
            raise MemoryError
        self.keys = [key for _, key in atoms]
        for i in range(len(atoms)):
            self.atoms[i].kind = kinds[atoms[i][0]]
            self.atoms[i].number = 0
            self.atoms[i].key = <PyObject*> self.keys[i]
            if self.atoms[i].kind == LITERAL:
                self.atoms[i].size = len(self.keys[i])
                self.keys[i] = self.keys[i].ljust(SHORT)
                self.atoms[i].key = <PyObject*> self.keys[i]
                self.atoms[i].text = PyBytes_AS_STRING(self.keys[i])
            elif self.atoms[i].kind == FIELD:
                self.atoms[i].number = known_field(self.keys[i])
            elif self.atoms[i].kind == VARIABLE and (part := part_of(self.keys[i])) is not None:
                self.atoms[i].kind, self.atoms[i].number = PART, part
            self.wants_headers |= self.atoms[i].kind == RESPONSE_FIELD
        self.count = len(atoms)
        self.json = json
        self.something = Event()
        self.full = Event()
        self.second = -1

    def __dealloc__(self):
        PyMem_Free(self.atoms)
        PyMem_Free(self.data)

    cdef int log(self, Request request, object status, int64_t body_bytes, int64_t started, object headers,
            object exchange) except -1:
        """`exchange`: None for bytes that are no request. Nothing but code of an application waits, see
        said()."""
        cdef int _
        cdef Loop loop = peek_loop()
        cdef BaseTasklet me = None
        cdef Atom* atom = self.atoms
        cdef PyObject** keys = request.keys
        if self.size > LOG_HELD:
            self.dropped += 1
            return 0
        self.line = self.size
        if loop is not None:
            self.switched, me = loop.switched, begin_still(loop)
        try:
            for _ in range(self.count):
                if atom.kind == LITERAL:
                    self.put_literal(atom)
                elif atom.kind == PART:
                    if keys != NULL:
                        self.put_value(<PyObject*> request.values, keys[atom.number])
                    else:
                        self.put_string(request.part(<Part> atom.number))
                elif atom.kind == FIELD:
                    if keys != NULL and atom.number != HEAD_UNKNOWN:
                        self.put_value(<PyObject*> request.values, request.field_keys[atom.number])
                    else:
                        self.put_string(request.get(<str> <object> atom.key, atom.number))
                else:
                    self.put_atom(atom, request, status, body_bytes, started, headers, exchange)
                atom += 1
        except BaseException:
            self.size = self.line               # no half a line
            raise
        finally:
            if loop is not None:
                end_still(loop, me, self.switched)
        if self.line == 0:
            self.something.set()
        elif self.line < WRITTEN_AT and self.size >= WRITTEN_AT:
            self.full.set()
        return 0

    def log_line(
        self, Request request not None, str status not None, int64_t body_bytes, int64_t started,
        exchange=None, headers=None,
    ) -> None:
        """A response of another server in this process; `started`: ns, by the monotonic clock. `exchange`:
        as of log()."""
        self.log(request, status, body_bytes, started, headers, exchange)

    cdef inline int put_value(self, PyObject* values, PyObject* key) except -1:
        cdef PyObject* value = dict_get(values, key)
        return self.put_string(<object> value) if value != NULL else self.put_none()

    cdef int put_atom(
        self, Atom* atom, Request request, object status, int64_t body_bytes, int64_t started, object headers,
        object exchange
    ) except -1:
        key = <object> atom.key
        if atom.kind == REQUEST_LINE or atom.kind == FULL_PATH or atom.kind == FULL_QUERY:
            return self.put_request(atom.kind, request)
        elif atom.kind == VARIABLE:
            return self.put_string(request.variable(key))
        elif atom.kind == STATUS:
            if status is None:
                return self.put_none()
            if PyUnicode_KIND(status) == 1 and PyUnicode_GET_LENGTH(status) >= 3:
                return self.put(<const char*> PyUnicode_DATA(status), 3)
            return self.put(b"000", 3)
        elif atom.kind == BODY_BYTES_NUMBER or (atom.kind == BODY_BYTES and (self.json or body_bytes)):
            return self.put_number(body_bytes)
        elif atom.kind == BODY_BYTES:
            return self.put_char(c"-")
        elif atom.kind == DURATION:
            return self.put_number((monotonic_ns() - started) // <int64_t> key)
        elif atom.kind == STAMP:
            stamp = self.time_stamp()
            return self.put_string(stamp) if self.json else self.put_stamp(stamp)
        elif atom.kind == STRFTIME:
            return self.put_string(time.strftime(key))
        elif atom.kind == OF_EXCHANGE:
            return self.put_told(REFUSED.get(key) if exchange is None else getattr(exchange, <str> key))
        for name, field in headers or ():       # RESPONSE_FIELD
            if name.lower() == key:
                return self.put_string(field)
        return self.put_none()

    cdef int put_told(self, object value) except -1:
        """Append a value that an exchange reports of itself."""
        if value is None or type(value) is str:
            return self.put_string(value)
        return self.put_number(<int64_t> (value * 1e6) if type(value) is float else value)

    cdef str said(self, object value):
        """str() of a value that an application has put there. Its code may let others run, who write lines:
        what there is of this one is out of their way meanwhile."""
        cdef bytes begun = self.data[self.line:self.size] if self.size else b""
        cdef Loop loop = peek_loop()
        cdef BaseTasklet me = None if loop is None else loop.still
        self.size = self.line
        if me is not None:
            loop.current, loop.still = me, None
        try:
            return str(value)
        finally:
            if loop is not None:
                self.switched = loop.switched
            if me is not None:
                begin_still(loop)
            self.line = self.size
            self.put(PyBytes_AS_STRING(begun), len(begun))

    cdef str text_of(self, Request request, Part part):
        """Return a part, which an application may have changed; None if there is none."""
        cdef PyObject* value
        if request.keys == NULL:
            return request.part(part)
        value = dict_get(<PyObject*> request.values, request.keys[<int> part])
        if value == NULL:
            return None
        return <str> value if type(<object> value) is str else self.said(<object> value)

    cdef int put_request(self, Kind kind, Request request) except -1:
        """Its line, path or query."""
        cdef str query, method = self.text_of(request, METHOD)
        if method is None:                      # the received bytes were no request
            return self.put_string(self.text_of(request, UNREAD_LINE) if kind == REQUEST_LINE else None)
        if self.json:
            self.put_char(c'"')
        if kind == REQUEST_LINE:
            self.put_url(method)
            self.put_char(c" ")
        if kind != FULL_QUERY:
            self.put_url(self.text_of(request, ROOT_PATH))
            self.put_url(self.text_of(request, PATH))
        if kind != FULL_PATH:
            query = self.text_of(request, QUERY)
            if query is not None and PyUnicode_GET_LENGTH(query):
                self.put_char(c"?")
                self.put_escaped(query)
        if kind == REQUEST_LINE:
            self.put_char(c" ")
            self.put_url(self.text_of(request, VERSION))
        return self.put_char(c'"') if self.json else 0

    cdef object time_stamp(self):
        cdef time_t now = time_now(NULL)
        if now != self.second:
            self.second = now
            t = time.localtime(now)
            zone = time.strftime("%z", t)
            clock = f"{t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02}"
            if self.json:
                self.stamp = f"{t.tm_year}-{t.tm_mon:02}-{t.tm_mday:02}T{clock}{zone[:3]}:{zone[3:]}"
            else:
                self.stamp = f"[{t.tm_mday:02}/{MONTHS[t.tm_mon - 1]}/{t.tm_year}:{clock} {zone}]"
        return self.stamp

    # -- bytes -----------------------------------------------------------------------------------------------

    cdef int grow(self, size_t size) except -1:
        cdef size_t room = max(self.room * 2, self.size + size + 4096)
        cdef char* grown = <char*> PyMem_Realloc(self.data, room)
        if grown == NULL:
            raise MemoryError
        self.data = grown
        self.room = room
        return 0

    cdef inline char* room_for(self, size_t size) except NULL:
        """Where the next bytes go; self.size is the caller's to increase."""
        if self.room - self.size <= size:       # for 0 bytes, too, there must be a buffer
            self.grow(size)
        return self.data + self.size

    cdef inline int put(self, const char* data, size_t size) except -1:
        memcpy(self.room_for(size), data, size)
        self.size += size
        return 0

    cdef inline int put_char(self, char c) except -1:
        self.room_for(1)[0] = c
        self.size += 1
        return 0

    cdef inline int put_literal(self, Atom* atom) except -1:
        if atom.size <= SHORT:                  # as nearly all are; a copy of constant size needs no call
            memcpy(self.room_for(SHORT), atom.text, SHORT)
            self.size += atom.size
            return 0
        return self.put(atom.text, atom.size)

    cdef inline int put_none(self) except -1:
        return self.put(b"null", 4) if self.json else self.put_char(c"-")

    cdef int put_number(self, int64_t number) except -1:
        cdef char text[20]
        cdef int at = 20
        cdef uint64_t rest = <uint64_t> number
        if number < 0:
            self.put_char(c"-")
            rest = 0 - rest
        while True:                             # by hand, because snprintf() is slow
            at -= 1
            text[at] = <char> (c"0" + <int> (rest % 10))
            rest = rest // 10
            if rest == 0:
                break
        return self.put(text + at, 20 - at)

    cdef int put_stamp(self, object text) except -1:
        """An ASCII str that needs no escaping."""
        return self.put(<const char*> PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text))

    cdef int put_string(self, object value) except -1:
        """A value, quoted in JSON; - or null for none."""
        if value is None or (type(value) is str and PyUnicode_GET_LENGTH(value) == 0):
            return self.put_none()
        if type(value) is not str:
            value = self.said(value)
        if not self.json:
            return self.put_escaped(value)
        self.put_char(c'"')
        self.put_escaped(value)
        return self.put_char(c'"')

    cdef Py_ssize_t put_good(self, object text, const char* good) except -1:
        """Its first letters, as far as they stand for themselves. Return how many they are."""
        cdef Py_ssize_t i = 0, size = PyUnicode_GET_LENGTH(text)
        cdef const unsigned char* data = <const unsigned char*> PyUnicode_DATA(text)
        cdef char* to = self.room_for(size)
        while i < size and good[data[i]]:
            to[i] = <char> data[i]
            i += 1
        self.size += i
        return i

    cdef int put_escaped(self, object text) except -1:
        cdef Py_ssize_t i
        cdef unsigned c
        cdef char escape[16]
        if PyUnicode_KIND(text) != 1:  # an application has put it there; clients can only send latin-1
            return self.put_escaped("".join([letter if letter < "\u0100" else f"U+{ord(letter):04X}"
                for letter in text]))
        for i in range(self.put_good(text, plain), PyUnicode_GET_LENGTH(text)):
            c = (<unsigned char*> PyUnicode_DATA(text))[i]
            if plain[c]:
                self.put_char(<char> c)
            else:
                self.put(escape, snprintf(escape, 16, "\\u%04x" if self.json else "\\x%02x", c))
        return 0

    cdef int put_url(self, object text) except -1:
        """Percent-encoded where a URL would be; nothing for None."""
        cdef Py_ssize_t i
        cdef unsigned c
        cdef char escape[8]
        if text is None:
            return 0
        if PyUnicode_KIND(text) != 1:           # an application has put it there
            return self.put_url(text.encode("utf-8", "replace").decode("latin-1"))
        for i in range(self.put_good(text, url_safe), PyUnicode_GET_LENGTH(text)):
            c = (<unsigned char*> PyUnicode_DATA(text))[i]
            if url_safe[c]:
                self.put_char(<char> c)
            else:
                self.put(escape, snprintf(escape, 8, "%%%02X", c))
        return 0

    def take(self) -> bytes:
        """Return the lines that are held back; they are the caller's from then on."""
        self.something.clear()
        self.full.clear()
        block = self.data[:self.size] if self.size else b""
        self.size = 0
        if self.room > WRITTEN_AT * 4:
            PyMem_Free(self.data)
            self.data = NULL
            self.room = 0
        return block

    def measure(self, Request request not None, str status, int body_bytes, int times) -> bytes:
        """Log the same response `times` times and take the lines: for tests and for measuring the cost of a
        line."""
        cdef int _
        cdef int64_t now = monotonic_ns()
        for _ in range(times):
            self.log(request, status, body_bytes, now, None, None)
        return self.take()
