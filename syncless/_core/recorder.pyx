"""WaitRecorder: for what a tasklet has waited, at which line of the program, and for how long.

It is told by Scheduler.park() when a wait is over, and keeps the longest waits as C structs: no object is
made for a wait. Their lines and the peers of their sockets are looked up once the tasklet has waited for
LOOK_AFTER in all: a quick request does not pay for that. Words are made when somebody reads. Tracer keeps
the runs and waits of all tasklets in the same way, while somebody looks.

No Python code may run in waited(): the tasklet may still stand in the queue in which it has waited, and the
outcome of that wait has not been read yet. So the garbage collector is kept from running there.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, realloc

from syncless._core.clock cimport monotonic_ns
from syncless._core.cpython.compat cimport line_at, place_in, put_back, set_aside
from syncless._core.cpython.layouts cimport holder_of_lock, is_lock, is_rlock, owner_of_rlock, socket
from syncless._core.linked cimport Node
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport PARKED, READY, BaseTasklet, Observer, Recorder
from syncless._core.tasklet cimport Tasklet
from syncless._core.threadloop cimport get_loop

from types import CoroutineType

from syncless._core.waits import Wait, is_installed, where_time_went

cdef extern from *:
    """
    #include <arpa/inet.h>
    #include <errno.h>
    #include <netinet/in.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/un.h>

    /* The address of the socket's peer; leaves the text alone if there is none. */
    static void syncless_peer(int fd, char *text, size_t size)
    {
        union {
            struct sockaddr any;
            struct sockaddr_in four;
            struct sockaddr_in6 six;
            struct sockaddr_un local;
        } peer;
        char host[INET6_ADDRSTRLEN];
        socklen_t length = sizeof peer - 1;
        int before = errno;
        memset(&peer, 0, sizeof peer);
        if (getpeername(fd, &peer.any, &length) == 0) {
            if (peer.any.sa_family == AF_INET
                && inet_ntop(AF_INET, &peer.four.sin_addr, host, sizeof host))
                snprintf(text, size, "%s:%d", host, ntohs(peer.four.sin_port));
            else if (peer.any.sa_family == AF_INET6
                && inet_ntop(AF_INET6, &peer.six.sin6_addr, host, sizeof host))
                snprintf(text, size, "[%s]:%d", host, ntohs(peer.six.sin6_port));
            else if (peer.any.sa_family == AF_UNIX && peer.local.sun_path[0])
                snprintf(text, size, "%.*s", (int)size - 1, peer.local.sun_path);
        }
        errno = before;
    }
    """
    void syncless_peer(int fd, char* text, size_t size)
    int PyGC_Disable()
    int PyGC_Enable()
    void Py_INCREF(PyObject* thing)
    void Py_XDECREF_ "Py_XDECREF"(void* thing)
    const char* PyUnicode_AsUTF8(object text) except NULL

cdef extern from "frameobject.h":       # Python.h includes it from 3.11 on
    ctypedef struct PyCodeObject:
        PyObject* co_filename
    ctypedef struct PyFrameObject:
        pass
    PyFrameObject* PyEval_GetFrame()
    PyFrameObject* PyFrame_GetBack(PyFrameObject* frame)
    PyCodeObject* PyFrame_GetCode(PyFrameObject* frame)

cdef int64_t LOOK_AFTER = 20000000      # ns
# functions of drivers, and their arguments that are the text of a query
cdef frozenset ASKING = frozenset((
    "execute", "executemany", "_execute", "do_execute", "do_executemany", "query", "fetch", "fetchrow",
    "fetchval"))
cdef tuple QUERIES = ("sql", "statement", "query", "operation")
cdef enum:
    TEXT = 1000             # characters of it that are told


cdef struct KnownFile:
    PyObject* name          # owned
    bint installed

cdef KnownFile[256] known_files


cdef bint is_programs(PyCodeObject* code) noexcept:
    cdef KnownFile* known = &known_files[(<uintptr_t> code.co_filename >> 4) & 255]
    if known.name != code.co_filename:
        Py_XDECREF(known.name)
        known.name = code.co_filename
        Py_INCREF(known.name)
        known.installed = is_installed(<object> known.name)
    return not known.installed


cdef void find_query(KeptWait* wait, object frame, object code) noexcept:
    """The text that a driver, or what the program has put in front of it, has among its variables."""
    try:
        if wait.query == NULL and code.co_name in ASKING:
            variables = frame.f_locals
            for name in QUERIES:
                text = variables.get(name)
                if type(text) is str:
                    Py_INCREF(<PyObject*> text)
                    wait.query = <PyObject*> text
                    break
    except Exception:
        pass                                # there is no memory for it


cdef void find_place(KeptWait* wait) noexcept:
    """The innermost function of the program that waits; one of another file if there is none of those."""
    cdef PyFrameObject* frame = PyEval_GetFrame()
    cdef PyFrameObject* back
    cdef PyCodeObject* code
    if frame == NULL:
        return
    Py_INCREF(<PyObject*> frame)
    while frame != NULL:
        code = PyFrame_GetCode(frame)
        if not is_programs(code):
            find_query(wait, <object> <PyObject*> frame, <object> <PyObject*> code)
        if wait.code == NULL or is_programs(code):
            Py_XDECREF(wait.code)
            wait.code = <PyObject*> code
            wait.at = place_in(<PyObject*> frame)
            if is_programs(code):
                break
        else:
            Py_XDECREF_(code)
        back = PyFrame_GetBack(frame)
        Py_XDECREF_(frame)
        frame = back
    Py_XDECREF_(frame)


cdef void find_await(KeptWait* wait, object coroutine) noexcept:
    """The same of a task: in the coroutines that wait for each other, the innermost last."""
    cdef PyCodeObject* code
    cdef bint found = False
    while type(coroutine) is CoroutineType and coroutine.cr_frame is not None:
        frame = coroutine.cr_frame
        code = PyFrame_GetCode(<PyFrameObject*> frame)
        if not is_programs(code):
            find_query(wait, frame, <object> <PyObject*> code)
        if is_programs(code) or not found:
            found = is_programs(code)
            Py_XDECREF(wait.code)
            wait.code = <PyObject*> code
            wait.at = place_in(<PyObject*> frame)
        else:
            Py_XDECREF_(code)
        coroutine = coroutine.cr_await


cdef int write(KeptWait* wait, const char* before, str text) except -1:
    snprintf(wait.on, WORDS, "%s%s", before, PyUnicode_AsUTF8(text))
    return 0


cdef int find_holder(KeptWait* wait, BaseTasklet tasklet, object lock) except -1:
    """Names who holds the lock still, if that is another tasklet of the same loop."""
    cdef uint32_t number = holder_of_lock(lock) if is_lock(lock) else 0
    cdef uintptr_t ident = owner_of_rlock(lock) if is_rlock(lock) else 0
    cdef Node* node = tasklet.loop.live.first if number or ident else NULL
    while node != NULL:
        one = <object> node.owner
        owner = (<Tasklet> one).owner_of_locks() if ident and isinstance(one, Tasklet) else None
        if <uintptr_t> <PyObject*> owner == ident or (
                number and <uint32_t> (<BaseTasklet> one).serial == number):
            return 0 if one is tasklet else write(wait, "held by ", one.name)
        node = node.after
    return 0


cdef int woken_by_holder(BaseTasklet waiter) except -1:
    """The running tasklet has released the lock for which the other one waited, and has woken it."""
    if waiter.recorder is not None and waiter.ready_since - waiter.since >= LOOK_AFTER:
        waiter.recorder.purpose = f"held by {get_loop().current.name}"
    return 0


cdef void look(KeptWait* wait, BaseTasklet tasklet, object on) noexcept:
    """Notes where the tasklet, which is the running one, has waited, and on what."""
    cdef bint collects = PyGC_Disable()
    cdef PyObject* raised[3]
    set_aside(raised)
    find_place(wait)
    try:
        find_what(wait, tasklet, on)
    except Exception:
        wait.on[0] = 0                      # a name that cannot be written
    put_back(raised)
    if collects:
        PyGC_Enable()


cdef int find_what(KeptWait* wait, BaseTasklet tasklet, object on) except -1:
    cdef object purpose = None if tasklet.recorder is None else tasklet.recorder.purpose
    if type(purpose) is int:
        syncless_peer(purpose, wait.on, WORDS)
    elif purpose is not None:
        write(wait, "", purpose)
    elif isinstance(on, socket):
        syncless_peer((<socket> on).sock_fd, wait.on, WORDS)
    elif type(on) is int:
        syncless_peer(on, wait.on, WORDS)
    elif type(on) is str:
        write(wait, "", on)
    elif is_lock(on) or is_rlock(on):
        find_holder(wait, tasklet, on)
    elif hasattr(on, "get_coro"):
        find_await(wait, on.get_coro())
    return 0


cdef void drop_found(KeptWait* wait) noexcept:
    cdef PyObject* code = wait.code
    cdef PyObject* query = wait.query
    wait.code = wait.query = NULL
    Py_XDECREF(code)
    Py_XDECREF(query)


cdef object as_wait(KeptWait* one):
    code = <object> one.code if one.code != NULL else None
    return Wait(
        one.why.decode(),
        one.on.decode("utf-8", "replace"),
        "" if code is None else code.co_filename,
        0 if code is None else line_at(one.code, one.at),
        "" if code is None else code.co_name,
        one.since / 1e9,
        one.ns / 1e9,
        "" if one.query == NULL else (<str> <object> one.query)[:TEXT],
    )


cdef class WaitRecorder(Recorder):
    """WaitRecorder(most): keeps that many waits."""

    def __init__(self, int most):
        self.most = most

    def __dealloc__(self):
        self.forget()
        free(self.waits)

    cdef void waited(self, BaseTasklet tasklet, const char* why, object on) noexcept:
        cdef int64_t ns = max(<int64_t> 0, tasklet.ready_since - tasklet.since)
        cdef KeptWait* wait
        self.number += 1
        self.waited_ns += ns
        wait = self.place(ns)
        if wait == NULL:
            return
        wait.why = why
        wait.since = tasklet.since
        wait.ns = ns
        wait.on[0] = 0
        if self.waited_ns >= LOOK_AFTER:
            look(wait, tasklet, on)

    cdef KeptWait* place(self, int64_t ns) noexcept:
        """Where to keep a wait of that length; NULL if there is no room for it."""
        cdef KeptWait* more
        cdef KeptWait* found
        cdef int i, room
        if self.count == self.most:
            if ns <= self.shortest:
                return NULL
            found = &self.waits[0]
            for i in range(1, self.most):
                if self.waits[i].ns < found.ns:
                    found = &self.waits[i]
            self.shortest = found.ns
            if ns <= found.ns:
                return NULL
            drop_found(found)
            return found
        if self.count == self.room:
            room = min(self.room * 2 if self.room else 4, self.most)
            more = <KeptWait*> realloc(self.waits, room * sizeof(KeptWait))
            if more == NULL:
                return NULL
            self.waits = more
            self.room = room
        found = &self.waits[self.count]
        found.code = found.query = NULL
        self.count += 1
        if self.count == self.most:
            self.shortest = -1
        return found

    cdef int forget(self) noexcept:
        """Drop what is kept."""
        while self.count:
            self.count -= 1
            drop_found(&self.waits[self.count])
        return 0

    def kept(self) -> list:
        """Return the longest waits as Wait objects, in chronological order."""
        cdef int i
        found = [as_wait(&self.waits[i]) for i in range(self.count)]
        found.sort(key=lambda wait: wait.since)
        return found

    @property
    def waited_seconds(self) -> float:
        """Seconds spent in all waits."""
        return self.waited_ns / 1e9

    @property
    def queued_seconds(self) -> float:
        """Seconds spent in the ready queue."""
        return self.queued_ns / 1e9


cdef str time_went(BaseTasklet tasklet, int64_t since):
    """Return the end of a sentence about a deadline: for what a request has waited most since then (ns); ""
    for another tasklet."""
    if tasklet.recorder is None:
        return ""
    waits = (<WaitRecorder> tasklet.recorder).kept()
    return where_time_went([wait for wait in waits if wait.since >= since / 1e9])


def recorded(BaseTasklet tasklet not None) -> WaitRecorder | None:
    """Return the recorder of the tasklet's waits, or None if the tasklet is not a request."""
    return tasklet.recorder


def set_purpose(purpose: str | int | None) -> str | int | None:
    """Set the purpose of the running tasklet's next waits, if they are recorded: a text that replaces a
    socket's peer, or the descriptor of another socket, whose peer it is. Return the previous purpose, which
    the caller restores."""
    cdef BaseTasklet tasklet = get_loop().current
    if tasklet is None or tasklet.recorder is None:
        return None
    purpose, tasklet.recorder.purpose = tasklet.recorder.purpose, purpose
    return purpose


# -- of all tasklets, while somebody looks ------------------------------------------------------------------

cdef const char* RUNS = "running"
cdef const char* QUEUES = "ready"


cdef struct Span:
    uint64_t tasklet        # its serial number
    KeptWait wait           # whose `why` may be RUNS or QUEUES


cdef class Tracer(Observer):
    """Tracer(most): keeps at most `most` spans; call start() and stop() in the thread of the tasklets.

    An observer is told when a tasklet goes on, which then still says what it has waited for, and when one
    stops.
    """
    cdef Span* spans
    cdef Py_ssize_t count, room, most
    cdef readonly Py_ssize_t dropped
    cdef readonly dict names        # of tasklets, by their serial numbers
    cdef Loop loop
    cdef uint64_t running           # the serial number of the tasklet that runs; 0: none
    cdef int64_t began              # it goes on, ns
    cdef int64_t started            # ns

    def __init__(self, Py_ssize_t most=1_000_000):
        self.most = most
        self.names = {}

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            drop_found(&self.spans[i].wait)
        free(self.spans)

    cdef KeptWait* add(self, BaseTasklet tasklet, const char* why, int64_t since, int64_t until) noexcept:
        """NULL if there is no room."""
        cdef Span* more
        cdef KeptWait* wait
        since = max(since, self.started)
        if until < since or (until == since and why == QUEUES):
            return NULL
        if self.count == self.room:
            more = NULL
            if self.room < self.most:
                more = <Span*> realloc(self.spans, min(max(1024, self.room * 2), self.most) * sizeof(Span))
            if more == NULL:
                self.dropped += 1
                return NULL
            self.spans = more
            self.room = min(max(1024, self.room * 2), self.most)
        self.spans[self.count].tasklet = tasklet.serial
        wait = &self.spans[self.count].wait
        self.count += 1
        wait.why = why
        wait.since = since
        wait.ns = until - since
        wait.code = wait.query = NULL
        wait.on[0] = 0
        return wait

    cdef int name(self, BaseTasklet tasklet) except -1:
        cdef bint collects
        if tasklet.serial not in self.names:
            collects = PyGC_Disable()       # no finaliser may wait here
            try:
                self.names[tasklet.serial] = tasklet.name
            finally:
                if collects:
                    PyGC_Enable()
        return 0

    cdef int begins(self, object one) except -1:
        cdef BaseTasklet tasklet = <BaseTasklet> one
        cdef int64_t now
        cdef KeptWait* wait
        if self.running == tasklet.serial:
            return 0                        # it gave way, and nobody else was ready
        now = monotonic_ns()
        self.name(tasklet)
        if tasklet.why != NULL:
            wait = self.add(tasklet, tasklet.why, tasklet.since, min(now, tasklet.ready_since))
            if wait != NULL:
                look(wait, tasklet, tasklet.waiting_on)
        if tasklet.switches > 1 and tasklet.ready_since >= self.started:    # not that of its last life
            self.add(tasklet, QUEUES, max(tasklet.since, tasklet.ready_since), now)
        self.running = tasklet.serial
        self.began = now
        return 0

    cdef int stops(self, object one) except -1:
        cdef BaseTasklet tasklet = <BaseTasklet> one
        cdef int64_t now = monotonic_ns()
        if self.running == tasklet.serial:
            self.add(tasklet, RUNS, self.began, now)
        self.running = 0
        if tasklet.state == PARKED:         # more exact than the loop's clock
            tasklet.since = now
        elif tasklet.state == READY:
            tasklet.ready_since = now
        return 0

    def start(self) -> None:
        """Start to record this thread."""
        self.loop = get_loop()
        self.started = self.began = monotonic_ns()
        if self.loop.current is not None:
            self.running = self.loop.current.serial
            self.name(self.loop.current)
        self.loop.observe(self)

    def stop(self) -> None:
        """Stop recording. Waits that have not ended become spans, too."""
        cdef BaseTasklet tasklet
        cdef int64_t now = monotonic_ns()
        self.loop.unobserve(self)
        if self.loop.current is not None and self.running == self.loop.current.serial:
            self.add(self.loop.current, RUNS, self.began, now)
        for tasklet in self.loop.tasklets():
            if tasklet.state == PARKED and tasklet.why != NULL:
                self.name(tasklet)
                self.add(tasklet, tasklet.why, tasklet.since, now)
        self.loop = None

    def found(self) -> list:
        """Return (serial number of the tasklet, Wait) pairs in the order of their ends. The `why` of a run is
        "running"; that of time in the ready queue is "ready"."""
        cdef Py_ssize_t i
        return [(self.spans[i].tasklet, as_wait(&self.spans[i].wait)) for i in range(self.count)]
