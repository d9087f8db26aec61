"""ResponseHeads: the common parts of response heads, made once.

Status lines are kept; the Server and Date fields are made anew each second; and the last head is kept whole.
So an application whose headers are constants pays for checking and writing them once a second, when the date
changes. That is by the system's time and at each response: the loop's clock stands still while an application
computes, and does not notice when the system's time is set. C's time() is no system call.
"""

cdef enum:
    STATUS_LINES = 128      # that are kept
    LARGEST = 2048          # bytes: a larger head is not kept

cdef bytes status_line_of(object status):
    if isinstance(status, int):
        status = f"{status} {PHRASES.get(status, 'Unknown')}"
    try:
        raw = status.encode("latin-1")
    except UnicodeEncodeError:
        return None
    if len(raw) < 4 or not raw[:3].isdigit() or raw[3:4] != b" " or raw[:1] < b"1":
        return None
    if any(c < 32 or c == 127 for c in raw):
        return None
    return b"HTTP/1.1 " + raw + b"\r\n"


cdef bint is_same_bytes(PyObject* one, PyObject* other) noexcept:
    return one == other or (
        PyBytes_CheckExact(<object> one) and PyBytes_CheckExact(<object> other)
        and PyBytes_GET_SIZE(<object> one) == PyBytes_GET_SIZE(<object> other)
        and memcmp(PyBytes_AS_STRING(<object> one), PyBytes_AS_STRING(<object> other),
                   PyBytes_GET_SIZE(<object> one)) == 0)


cdef bint is_same_pair(PyObject* one, PyObject* other) noexcept:
    """Return whether both are the same pair of bytes; `other` is a pair."""
    if one == other:
        return True
    return (
        type(<object> one) is tuple and PyTuple_GET_SIZE(<object> one) == 2
        and is_same_bytes(PyTuple_GET_ITEM(<object> one, 0), PyTuple_GET_ITEM(<object> other, 0))
        and is_same_bytes(PyTuple_GET_ITEM(<object> one, 1), PyTuple_GET_ITEM(<object> other, 1)))


@cython.final
cdef class ResponseHeads:
    """ResponseHeads().

    status_code()  the code of a status; its line is in `status_line` then
    dates()        the Server and Date fields
    is_last()      whether the head for this status and these headers is the last one: `head`, `length` and
                   `closes` are theirs then
    remember()     makes a head the last one
    """

    def __init__(self):
        self.dated = -1
        self.status_lines = {}

    cdef int status_code(self, object status) except -1:
        """Raise ValueError if the application's status is no status."""
        if status is self.read_status:
            return self.code
        known = self.status_lines.get(status)
        if known is None:
            line = status_line_of(status)
            if line is None:
                raise ValueError(
                    f"status must be three digits, a space and a reason in latin-1, not {status!r}")
            known = line, int(line[9:12])
            if len(self.status_lines) < STATUS_LINES:
                self.status_lines[status] = known
        self.read_status = status
        self.status_line, self.code = known
        return self.code

    cdef bytes dates(self):
        cdef int64_t now = seconds_now(NULL)
        if now != self.dated:
            self.dated = now
            self.date_block = dates_at(now)
        return self.date_block

    cdef bint is_last(self, object status, list headers) except -1:
        """By identity: strings and tuples do not change, so neither does their head."""
        cdef Py_ssize_t i
        if status is not self.status or self.headers is None or self.dates() is not self.head_dates:
            return False
        if PyList_GET_SIZE(headers) != PyTuple_GET_SIZE(self.headers):
            return False
        for i in range(PyList_GET_SIZE(headers)):
            if PyList_GET_ITEM(headers, i) != PyTuple_GET_ITEM(self.headers, i):
                return False
        return True

    cdef bint is_same(self, int status, object headers) except -1:
        """By value: a list of pairs of bytes. Those that were kept with a number as status are pairs, too."""
        cdef Py_ssize_t i
        if self.headers is None or self.number != status or type(headers) is not list:
            return False
        if PyList_GET_SIZE(headers) != PyTuple_GET_SIZE(self.headers) or self.dates() is not self.head_dates:
            return False
        for i in range(PyList_GET_SIZE(headers)):
            if not is_same_pair(PyList_GET_ITEM(headers, i), PyTuple_GET_ITEM(self.headers, i)):
                return False
        return True

    cdef int remember(self, object status, list headers, Buffer* head, int64_t length, bint closes) except -1:
        """`head`: without the empty line at its end, and with the present dates()."""
        self.headers = None
        if head.size > LARGEST:
            return 0
        self.head = PyBytes_FromStringAndSize(NULL, head.size + 2)
        memcpy(PyBytes_AS_STRING(self.head), head.data, head.size)
        memcpy(PyBytes_AS_STRING(self.head) + head.size, b"\r\n", 2)
        self.length = length
        self.closes = closes
        self.status = status
        self.number = status if isinstance(status, int) else 0
        self.head_dates = self.date_block
        self.headers = tuple(headers)
        return 0
