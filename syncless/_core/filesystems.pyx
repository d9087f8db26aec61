"""Which file systems answer at once: the rule by which a call is made directly or in one of the pool's threads.

Fact: nothing tells beforehand whether open, stat or a write will wait; a thread costs tens of microseconds, a stat one. Decision: each file
system is on trial. At first its calls are made in a thread, where the time of an answer is measured by asking for the attributes of the
directory once more, past any cache of theirs. After TRIAL quick answers in a row the calls are made directly, and timed; one that takes
longer than SLOW_NS sends the file system back to the threads, for twice as many quick answers as the last time. Price: the first call that
is suddenly slow stops the loop once. `set_mode` turns the rule off, in either direction. Guarded by tests/core/test_filesystems.py.

A file system is known by its device number. The device of a path is that of its directory as it is written, which is looked up once in a
thread and remembered; of a descriptor it is asked for without contact to a server (AT_STATX_DONT_SYNC).
"""

import os

from cpython.object cimport PyObject
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t

from syncless._core.clock cimport monotonic_ns

from syncless._core.threads import ThreadPool

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/stat.h>
    #include <sys/sysmacros.h>

    #if defined(__linux__) && defined(STATX_TYPE)
    static int syncless_look(int fd, const char *path, int fresh, SynclessKind *kind) {
        struct statx about;
        int flags = (fresh ? AT_STATX_FORCE_SYNC : AT_STATX_DONT_SYNC) | (path[0] ? 0 : AT_EMPTY_PATH);
        if (statx(fd, path, flags, STATX_TYPE | STATX_SIZE, &about))
            return -1;
        kind->file = S_ISREG(about.stx_mode) || S_ISDIR(about.stx_mode) || S_ISBLK(about.stx_mode);
        kind->fifo = S_ISFIFO(about.stx_mode);
        kind->size = (long long) about.stx_size;
        kind->device = ((unsigned long long) about.stx_dev_major << 32) | about.stx_dev_minor;
        return 0;
    }
    #else
    static int syncless_look(int fd, const char *path, int fresh, SynclessKind *kind) {
        struct stat about;
        (void) fresh;
        if (path[0] ? fstatat(fd, path, &about, 0) : fstat(fd, &about))
            return -1;
        kind->file = S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) || S_ISBLK(about.st_mode);
        kind->fifo = S_ISFIFO(about.st_mode);
        kind->size = (long long) about.st_size;
        kind->device = (unsigned long long) about.st_dev;
        return 0;
    }
    #endif
    """
    int AT_FDCWD
    int syncless_look(int fd, const char* path, int fresh, Kind* kind) nogil

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_FindChar(object text, Py_UCS4 character, Py_ssize_t start, Py_ssize_t end, int direction)
    object PyUnicode_Substring(object text, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL

TRIAL = 8                   # quick answers that a file system needs at first
LONGEST_TRIAL = 1024
SLOW_NS = 2_000_000         # an answer that takes longer is not a quick one
DIRECTORIES = 8192          # that are remembered

cdef int first_trial = TRIAL
cdef int longest_trial = LONGEST_TRIAL
cdef int64_t slow_ns = SLOW_NS
cdef Py_ssize_t room = DIRECTORIES

cdef enum Mode:
    ADAPTIVE, POOL, DIRECT

MODES = {"adaptive": ADAPTIVE, "pool": POOL, "direct": DIRECT}

cdef Mode mode = ADAPTIVE
cdef int slow_count = 0                 # file systems whose last answer was slow
cdef dict devices = {}                  # device -> FileSystem
cdef dict directories = {}              # directory as written, with its slash if it is part of a path; "" the working directory -> FileSystem
cdef FileSystem latest = None           # most descriptors are of one file system
cdef object pool = ThreadPool(16)


cdef class FileSystem:
    """One file system and how it stands with it."""

    def __cinit__(self, unsigned long long device):
        self.device = device
        self.trial = self.sentence = first_trial

    cdef bint direct(self) noexcept:
        return self.trial == 0 and mode != POOL

    cdef void answered(self, int64_t ns) noexcept:
        global slow_count
        cdef bint was_slow = self.slow
        self.slow = ns > slow_ns
        slow_count += self.slow - was_slow
        if self.slow:
            if self.trial == 0:
                self.sentence = min(2 * self.sentence, longest_trial)
            self.trial = self.sentence
        elif self.trial > 0:
            self.trial -= 1

    def __repr__(self):
        how = "slow" if self.slow else f"on trial, {self.trial} to go" if self.trial else "quick"
        return f"<FileSystem {self.device >> 32}:{self.device & 0xffffffff} {how}>"


def set_mode(str name) -> str:
    """"adaptive": the rule of this module; "pool": always in a thread; "direct": never. Returns what it was. ValueError for another."""
    global mode
    if name not in MODES:
        raise ValueError(f"there is no mode {name!r}; there are {', '.join(MODES)}")
    before = [known for known in MODES if MODES[known] == mode][0]
    mode = MODES[name]
    return before


def file_systems() -> list:
    """Those that have been met."""
    return list(devices.values())


def forget_directories() -> None:
    """To be called when the working directory has changed: relative names mean others."""
    directories.clear()


def forget_file_systems() -> None:
    """All are on trial again."""
    global slow_count, latest
    directories.clear()
    devices.clear()
    slow_count = 0
    latest = None


cdef bint any_slow() noexcept:
    return slow_count != 0 or mode == POOL


cdef bint never() noexcept:
    return mode == DIRECT


cdef int look(int fd, Kind* kind) noexcept:
    """What a descriptor is, as far as it is known here; never waits for a server. -1 with errno."""
    return syncless_look(fd, b"", False, kind)


cdef int look_at(object path, int fd, Kind* kind) noexcept:
    """What stands at a path (str, bytes or PathLike), relative to a directory's descriptor or -1; -1 if there is nothing, or no path."""
    cdef const char* name
    cdef int found
    try:
        if isinstance(path, int):
            return -1
        encoded = os.fsencode(path)
        if not encoded or 0 in <bytes> encoded:
            return -1
        name = encoded
    except (TypeError, ValueError):
        return -1
    with nogil:
        found = syncless_look(AT_FDCWD if fd < 0 else fd, name, False, kind)
    return found


cdef FileSystem of_device(unsigned long long device):
    global latest
    cdef FileSystem last = latest
    if last is not None and last.device == device:
        return last
    found = devices.get(device)
    if found is None:
        found = devices[device] = FileSystem(device)
    latest = found
    return found


cdef FileSystem of_descriptor(int fd):
    """None for what is no file: a pipe, a socket, a terminal, or nothing at all."""
    cdef Kind kind
    if look(fd, &kind) or not kind.file:
        return None
    return of_device(kind.device)


cdef FileSystem of_number(object fd):
    """As of_descriptor(), for what may be too large for one."""
    return of_descriptor(fd) if 0 <= fd <= INT_MAX else None


cdef object directory_of(object path, bint listed):
    """What the file system of a path is remembered by; None if that cannot be told."""
    cdef Py_ssize_t slash
    if type(path) is not str:
        if path is None:
            return ""
        try:
            path = os.fsdecode(path)
        except TypeError:               # the function itself will say so, or knows what to do with it
            return None
    if listed:
        return path
    slash = PyUnicode_FindChar(path, u"/", 0, PyUnicode_GET_LENGTH(path), -1)
    return "" if slash < 0 else PyUnicode_Substring(path, 0, slash + 1)


cdef object of_path(object path, bint listed, object dir_fd):
    """The FileSystem of a path's directory (of the path itself, if it is `listed`), or None if it is not known."""
    cdef PyObject* found
    if type(path) is int:
        return of_number(path)
    if dir_fd is not None and type(dir_fd) is int:
        return of_number(dir_fd)
    key = directory_of(path, listed)
    if key is None:
        return None
    found = PyDict_GetItemWithError(directories, key)
    return <object> found if found != NULL else None


cdef FileSystem measured(int fd, const char* name):
    """In a thread: what stands there is asked for, past any cache. None if there is nothing."""
    cdef Kind kind
    cdef int failed
    cdef FileSystem system
    cdef int64_t started = monotonic_ns()
    with nogil:
        failed = syncless_look(fd, name, True, &kind)
    if failed or not kind.file:
        return None
    system = of_device(kind.device)
    system.answered(monotonic_ns() - started)
    return system


def _measured(key, int fd, function, tuple args, dict kwargs):
    """In a thread: the call, and before it how long its file system takes."""
    cdef FileSystem system
    encoded = os.fsencode(key) if key else b"."
    if fd >= 0:
        measured(fd, b"")
    elif 0 not in <bytes> encoded:
        system = measured(AT_FDCWD, encoded)
        if system is not None:
            if len(directories) >= room:
                directories.clear()
            directories[key] = system
    return function(*args, **kwargs)


cdef object in_pool_of(object path, bint listed, object dir_fd, object function, tuple args, dict kwargs):
    """function(*args, **kwargs) in a thread; the file system of the path is measured there."""
    fd = path if type(path) is int else dir_fd if type(dir_fd) is int else -1
    key = directory_of(path, listed) if fd == -1 else None
    if fd == -1 and key is None or not -1 <= fd <= INT_MAX:
        return pool.run(function, *args, **kwargs)
    return pool.run(_measured, key, fd, function, args, kwargs)


cdef object in_pool(object function, tuple args, dict kwargs):
    return pool.run(function, *args, **kwargs)
