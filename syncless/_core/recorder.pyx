"""WaitRecorder: for what a tasklet has waited, at which line of the program, and for how long.

It is told by Scheduler.park() when a wait is over, and keeps the MOST longest waits as C structs: no object
is made for a wait. Their lines and the peers of their sockets are looked up once the tasklet has waited for
LOOK_AFTER in all: a quick request does not pay for that. Words are made when somebody reads.

No Python code may run in waited(): the tasklet may still stand in the queue in which it has waited, and the
outcome of that wait has not been read yet. So the garbage collector is kept from running there.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, realloc
from libc.string cimport strncpy

from syncless._core.cpython.compat cimport line_at, place_in, put_back, set_aside
from syncless._core.cpython.layouts cimport socket
from syncless._core.scheduler cimport BaseTasklet, Recorder

from syncless._core.installed import is_installed
from syncless._core.waits import Wait, where_time_went

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
    ctypedef struct PyCodeObject:
        PyObject* co_filename
    ctypedef struct PyFrameObject:
        pass
    PyFrameObject* PyEval_GetFrame()
    PyFrameObject* PyFrame_GetBack(PyFrameObject* frame)
    PyCodeObject* PyFrame_GetCode(PyFrameObject* frame)
    int PyGC_Disable()
    int PyGC_Enable()
    void Py_INCREF(PyObject* thing)
    void Py_XDECREF_ "Py_XDECREF"(void* thing)
    const char* PyUnicode_AsUTF8(object text) noexcept

cdef int64_t LOOK_AFTER = 20000000      # ns


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


cdef void find_place(KeptWait* wait) noexcept:
    """The innermost function of the program that waits; one of another file if there is none of those."""
    cdef PyFrameObject* frame = PyEval_GetFrame()
    cdef PyFrameObject* back
    cdef PyCodeObject* code
    Py_INCREF(<PyObject*> frame)
    while frame != NULL:
        code = PyFrame_GetCode(frame)
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


cdef void look(KeptWait* wait, object on) noexcept:
    """Notes where the running tasklet has waited, and on what."""
    cdef bint collects = PyGC_Disable()
    cdef const char* text
    cdef PyObject* raised[3]
    set_aside(raised)
    if PyEval_GetFrame() != NULL:
        find_place(wait)
    if isinstance(on, socket):
        syncless_peer((<socket> on).sock_fd, wait.on, WORDS)
    elif type(on) is int:
        syncless_peer(on, wait.on, WORDS)
    elif type(on) is str:
        text = PyUnicode_AsUTF8(on)
        if text != NULL:
            strncpy(wait.on, text, WORDS - 1)
            wait.on[WORDS - 1] = 0
    put_back(raised)
    if collects:
        PyGC_Enable()


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
    )


cdef class WaitRecorder(Recorder):
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
            look(wait, on)

    cdef KeptWait* place(self, int64_t ns) noexcept:
        """Where to keep a wait of that length; NULL if there is no room for it."""
        cdef KeptWait* more
        cdef KeptWait* found
        cdef int i, room
        if self.count == MOST:
            if ns <= self.shortest:
                return NULL
            found = &self.waits[0]
            for i in range(1, MOST):
                if self.waits[i].ns < found.ns:
                    found = &self.waits[i]
            self.shortest = found.ns
            if ns <= found.ns:
                return NULL
            Py_XDECREF(found.code)
            found.code = NULL
            return found
        if self.count == self.room:
            room = self.room * 2 if self.room else 4
            more = <KeptWait*> realloc(self.waits, room * sizeof(KeptWait))
            if more == NULL:
                return NULL
            self.waits = more
            self.room = room
        found = &self.waits[self.count]
        found.code = NULL
        self.count += 1
        if self.count == MOST:
            self.shortest = -1
        return found

    cdef int forget(self) noexcept:
        """Drops what is kept."""
        cdef PyObject* code
        while self.count:
            self.count -= 1
            code = self.waits[self.count].code
            self.waits[self.count].code = NULL
            Py_XDECREF(code)
        return 0

    def kept(self) -> list:
        """The longest waits, as Wait, in the order of time."""
        cdef int i
        found = [as_wait(&self.waits[i]) for i in range(self.count)]
        found.sort(key=lambda wait: wait.since)
        return found

    @property
    def waited_seconds(self) -> float:
        """In all waits."""
        return self.waited_ns / 1e9

    @property
    def queued_seconds(self) -> float:
        """In the ready queue."""
        return self.queued_ns / 1e9


cdef str time_went(BaseTasklet tasklet, int64_t since):
    """The end of a sentence about a deadline: for what a request has waited most since then (ns); "" for
    another tasklet."""
    if tasklet.recorder is None:
        return ""
    waits = (<WaitRecorder> tasklet.recorder).kept()
    return where_time_went([wait for wait in waits if wait.since >= since / 1e9])


def recorded(BaseTasklet tasklet not None) -> WaitRecorder | None:
    """What it keeps of its waits; a tasklet that is no request has nothing."""
    return tasklet.recorder
