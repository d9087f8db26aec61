"""Which file systems answer at once: the rule by which a call is made directly or in one of the pool's
threads.

Fact: nothing tells beforehand whether open, stat or a write will wait; a thread costs tens of microseconds, a
stat one. Decision: each function is on trial on each file system. At first its calls are made in threads and
timed, and the attributes of the directory are asked for once more, past any cache of theirs. After TRIAL
quick answers in a row the calls are made directly, and timed. One that takes longer than SLOW_NS sends the
function back to the threads, for twice as many quick answers as the last time, and all other functions to a
new trial. Price: the first call that is suddenly slow stops the loop once. `set_mode` turns the rule off, in
either direction. Guarded by tests/core/test_filesystems.py.

Fact: on a busy machine a call takes longer because its thread has lost the processor; by the clock alone half
of all calls there were taken for slow ones. Decision: a call that took long without a voluntary switch of its
thread has not waited (getrusage, ru_nvcsw). How many there were before is asked once a turn. Price: 0.35 us a
turn with file calls; a wait for the interpreter's lock counts as one. Guarded by
tests/core/test_filesystems.py::test_a_call_that_lost_the_processor_is_not_slow.

Fact: a file system that does not answer keeps the threads that ask it. Decision: each has THREADS of its own;
a path whose file system is not known yet belongs to its mount point, which the kernel tells without asking
the file system.

A file system is known by its device number. The device of a path is that of its directory as it is written,
which is looked up once and remembered; of a descriptor it is asked for without contact to a server
(AT_STATX_DONT_SYNC).

Fact: a program that walks a tree, or asks for files of directories that do not exist, meets a new directory
at each call. Danger: each costs a thread's work, as where pytest collects in a large folder. Decision: the
kernel is asked first for what it has in memory (openat2 with RESOLVE_CACHED, Linux 5.12), which asks no
server. Directories that do not exist are `nowhere`, on trial as a file system is. Danger: for the root of a
mount, and after "..", the kernel asks the server all the same; so these, and symbolic links, which may lead
to them, are left to threads. Guarded by tests/core/test_filesystems.py::test_directories_in_memory.

Fact: sendfile waits for the disk, with all tasklets of the thread, if the bytes are not in memory. Decision:
look first, at both ends of the part, and have a thread read what is not there. Price: two system calls for
each megabyte. Guarded by tests/http/test_static.py::test_large_file_is_brought_into_memory_by_a_thread.
"""

import os

from cpython.object cimport PyObject
from libc.errno cimport ENOENT, ENOTDIR, errno
from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t
from libc.string cimport memset

from syncless._core.arrays cimport with_place_for
from syncless._core.clock cimport monotonic_ns
from syncless._core.cpython.compat cimport put_back, set_aside
from syncless._core.cpython.vectorcall cimport PyObject_Vectorcall
from syncless._core.loop cimport Loop
from syncless._core.threadloop cimport peek_loop

from syncless._core.calls.threads import Share
from syncless._core.cpython.functions import original_of

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <string.h>
    #include <sys/resource.h>
    #include <sys/stat.h>
    #include "syncless_config.h"

    #ifdef RUSAGE_THREAD
    static __thread long syncless_waits;        /* of this thread, when they were counted last */
    static long syncless_count_waits(void) {    /* how many there have been since */
        struct rusage about;
        long before = syncless_waits;
        if (getrusage(RUSAGE_THREAD, &about))
            return 1;
        syncless_waits = about.ru_nvcsw;
        return syncless_waits - before;
    }
    #else
    static long syncless_count_waits(void) { return 1; }
    #endif
    static __thread long long syncless_turn;    /* in which they were counted; the time at which it began */
    static int syncless_is_turn(long long turn) {
        if (syncless_turn == turn)
            return 1;
        syncless_turn = turn;
        return 0;
    }

    #ifdef __linux__
    #include <sys/syscall.h>
    #endif
    #include <unistd.h>

    #if SYNCLESS_STATX
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

    /* 0: there is such a directory; 1: there is none; -1: the kernel would have to ask for it. */
    static int syncless_look_in_memory(const char *path, SynclessKind *kind) {
    #if SYNCLESS_OPENAT2 && SYNCLESS_STATX
        static int refused;
        struct { unsigned long long flags, mode, resolve; } how = {
            O_PATH | O_DIRECTORY | O_CLOEXEC, 0, 0x20 /* RESOLVE_CACHED */ | 0x04 /* RESOLVE_NO_SYMLINKS */
        };
        int fd, failed;
        if (refused)
            return -1;
        fd = (int) syscall(437 /* openat2 */, AT_FDCWD, path, &how, sizeof how);
        if (fd < 0) {
            refused = errno == ENOSYS || errno == EPERM || errno == EINVAL;
            return errno == ENOENT || errno == ENOTDIR ? 1 : -1;
        }
        failed = syncless_look(fd, "", 0, kind);
        close(fd);
        return failed;
    #else
        (void) path;
        (void) kind;
        return -1;
    #endif
    }

    static inline const char *syncless_last_slash(const char *text, size_t size) {
        while (size && text[size - 1] != '/')
            size--;
        return size ? text + size - 1 : NULL;
    }
    /* The length of the part of a path up to its last slash, 0 if there is none; -1 for others than ASCII. */
    static inline Py_ssize_t syncless_directory_size(PyObject *path) {
        const char *text, *slash;
        if (!PyUnicode_IS_COMPACT_ASCII(path))
            return -1;
        text = (const char *) PyUnicode_1BYTE_DATA(path);
        slash = syncless_last_slash(text, (size_t) PyUnicode_GET_LENGTH(path));
        return slash ? slash + 1 - text : 0;
    }
    /* Whether a path of ASCII begins with this one, which has that length. */
    static inline int syncless_begins_with(PyObject *path, PyObject *directory, Py_ssize_t size) {
        return PyUnicode_IS_COMPACT_ASCII(directory) && PyUnicode_GET_LENGTH(directory) == size
            && !memcmp(PyUnicode_1BYTE_DATA(path), PyUnicode_1BYTE_DATA(directory), (size_t) size);
    }
    static inline const char *syncless_text(PyObject *path) {   /* of a path of ASCII, else NULL */
        if (PyUnicode_CheckExact(path) && PyUnicode_IS_COMPACT_ASCII(path)
                && strlen((const char *) PyUnicode_1BYTE_DATA(path)) == (size_t) PyUnicode_GET_LENGTH(path))
            return (const char *) PyUnicode_1BYTE_DATA(path);
        return NULL;
    }
    """
    Py_ssize_t syncless_directory_size(object path) noexcept
    bint syncless_begins_with(object path, object directory, Py_ssize_t size) noexcept
    const char* syncless_text(object path) noexcept
    int AT_FDCWD
    int syncless_look(int fd, const char* path, int fresh, Kind* kind) nogil
    int syncless_look_in_memory(const char* path, Kind* kind) nogil
    long syncless_count_waits() noexcept nogil
    int syncless_is_turn(long long turn) noexcept nogil

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_FindChar(object text, Py_UCS4 character, Py_ssize_t start, Py_ssize_t end,
        int direction)
    object PyUnicode_FromObject(object text)
    object PyUnicode_Substring(object text, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL

DIRECTORIES = 8192          # that are remembered
THREADS = 16                # of each file system

cdef Py_ssize_t room = DIRECTORIES

cdef enum Mode:
    ADAPTIVE, POOL, DIRECT

MODES = {"adaptive": ADAPTIVE, "pool": POOL, "direct": DIRECT}

cdef Mode mode = ADAPTIVE
cdef int slow_count = 0                 # trials in which an answer was slow, and not enough were quick since
cdef dict devices = {}                  # device -> FileSystem
# directory as written, with its slash if it is part of a path; "" the working directory -> FileSystem
cdef dict directories = {}
cdef FileSystem latest = None           # most descriptors are of one file system
cdef str latest_directory = None        # a key of `directories`: most paths are in the same one as the last
cdef FileSystem latest_there = None     # its value
cdef dict shares = {}                   # mount point -> Share, for paths whose file system is not known
cdef object elsewhere = Share(THREADS)  # for calls on no file system
cdef FileSystem nowhere                 # of paths whose directory does not exist



cdef class FileSystem:
    """One file system and how it stands with it."""

    def __cinit__(self, unsigned long long device):
        self.device = device
        self.trials = {}
        self.share = Share(THREADS)

    cdef Trial trial_of(self, object function):
        cdef PyObject* found = PyDict_GetItemWithError(self.trials, function)
        cdef Trial trial
        if found != NULL:
            return <Trial> found
        trial = self.trials[function] = Trial(self)
        return trial

    def __repr__(self):
        cdef Trial trial
        quick = any([trial.left == 0 for trial in self.trials.values()])
        state = 'slow' if self.slow else 'quick' if quick else 'on trial'
        return f"<FileSystem {self.device >> 32}:{self.device & 0xffffffff} {state}>"


nowhere = FileSystem(0)


cdef bint is_quick(int64_t ns, bint in_thread) noexcept nogil:
    return ns <= (SLOW_NS + LOCK_NS if in_thread else SLOW_NS)


cdef class Trial:
    """Of one function on one file system."""

    def __cinit__(self, FileSystem system):
        self.system = system
        self.left = self.sentence = TRIAL

    cdef bint direct(self) noexcept:
        return self.left == 0 and mode != POOL

    cdef int answered(self, int64_t ns, bint in_thread) except -1:
        global slow_count
        cdef Trial other
        if is_quick(ns, in_thread):
            if self.left > 0:
                self.left -= 1
                if self.left == 0 and self.slow:
                    self.slow = False
                    self.system.slow -= 1
                    slow_count -= 1
            return 0
        if self.left == 0:
            self.sentence = min(2 * self.sentence, LONGEST_TRIAL)
            for other in self.system.trials.values():
                other.left = max(other.left, TRIAL)
        self.left = self.sentence
        if not self.slow:
            self.slow = True
            self.system.slow += 1
            slow_count += 1
        return 0


def set_mode(str name) -> str:
    """"adaptive": the rule of this module; "pool": always in a thread; "direct": never. Return what it was.
    Raise ValueError for another."""
    global mode
    if name not in MODES:
        raise ValueError(f"unknown mode {name!r}; choose from {', '.join(MODES)}")
    before = [known for known in MODES if MODES[known] == mode][0]
    mode = MODES[name]
    return before


def file_systems() -> list:
    """Return those that have been met."""
    return list(devices.values())


def forget_directories() -> None:
    """To be called when the working directory has changed: relative names mean others."""
    directories.clear()
    forget_latest()


def forget_file_systems() -> None:
    """All are on trial again."""
    global slow_count, latest
    cdef FileSystem system
    for system in (*devices.values(), nowhere):
        system.trials.clear()
        system.slow = 0                 # a database may keep it
    forget_files()
    forget_directories()
    devices.clear()
    slow_count = 0
    latest = None


cdef int forget_latest() except -1:
    global latest_directory, latest_there
    latest_directory = latest_there = None
    return 0


cdef int64_t begin_call() noexcept:
    """Return the time, before a call that is on trial."""
    cdef Loop loop = peek_loop()
    if loop is None or not syncless_is_turn(loop.clock.polled_at):
        syncless_count_waits()
    return monotonic_ns()


cdef int64_t begin_in_thread() noexcept nogil:
    syncless_count_waits()
    return monotonic_ns()


cdef int64_t took(int64_t started) noexcept nogil:
    """Return how long the call has taken, in nanoseconds; 0 if it has not waited."""
    cdef int64_t ns = monotonic_ns() - started
    return ns if ns <= SLOW_NS or syncless_count_waits() else 0


cdef bint any_slow() noexcept:
    return slow_count != 0 or mode == POOL


cdef bint never() noexcept:
    return mode == DIRECT


cdef bint pools_all() noexcept:
    return mode == POOL


cdef int look(int fd, Kind* kind) noexcept:
    """Return the kind of a descriptor, as far as it is known here; never waits for a server. -1 with
    errno."""
    return syncless_look(fd, b"", False, kind)


cdef int look_at(object path, int fd, Kind* kind) noexcept:
    """Return the kind of file at a path (str, bytes or PathLike), relative to a directory's descriptor or -1;
    -1 if there is nothing, or no path."""
    cdef const char* name
    cdef int found
    name = syncless_text(path)
    if name == NULL:
        try:
            if isinstance(path, int):
                return -1
            encoded = os.fsencode(path)
            if 0 in <bytes> encoded:
                return -1
            name = encoded
        except (TypeError, ValueError):
            return -1
    if name[0] == 0:
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
    """None for a descriptor that is no file: a pipe, a socket, a terminal, or nothing at all."""
    cdef Kind kind
    if look(fd, &kind) or not kind.file:
        return None
    return of_device(kind.device)


# -- files that an io.FileIO has opened: theirs need not be asked for again -----------------------


cdef struct Opened:
    PyObject* owner         # not held: the FileIO whose descriptor this is
    PyObject* system        # not held: `devices` has it


cdef Opened* files = NULL
cdef int files_room = 0


cdef int keep(int fd, object owner) except -1:
    """Note the file system of a file that `owner` has just opened, and closes by close_under_waiters(). 1:
    the file system was new, and others may have run meanwhile; so another look is needed."""
    global files
    cdef Kind kind
    cdef Opened* grown
    if look(fd, &kind) or not kind.file:
        return 0
    if latest is None or latest.device != kind.device:
        of_device(kind.device)
        return 1
    if fd >= files_room:
        grown = <Opened*> with_place_for(fd, files, &files_room, sizeof(Opened))
        if grown == NULL:
            return 0
        files = grown
    files[fd].system = <PyObject*> latest
    files[fd].owner = <PyObject*> owner
    return 0


cdef void forget(int fd) noexcept:
    """The descriptor is going to be closed, or to mean something else."""
    if 0 <= fd < files_room:
        files[fd].owner = NULL


cdef void forget_files() noexcept:
    memset(files, 0, files_room * sizeof(Opened))


cdef FileSystem kept(int fd, object owner):
    """That of a file that this object has opened; None if it is to be asked for. Worth nothing after a
    switch."""
    if 0 <= fd < files_room and files[fd].owner == <PyObject*> owner and mode == ADAPTIVE:
        return <FileSystem> files[fd].system
    return None


cdef FileSystem of_number(object fd):
    """As of_descriptor(), for a number that may be too large for one."""
    return of_descriptor(fd) if 0 <= fd <= INT_MAX else None


cdef object directory_of(object path, bint listed):
    """Return the key under which the file system of a path is remembered; None if that cannot be told."""
    cdef Py_ssize_t slash
    if type(path) is not str:
        if path is None:
            return ""
        try:
            path = os.fsdecode(path)
        except TypeError:               # the function itself will say so, or knows what to do with it
            return None
        path = PyUnicode_FromObject(path)       # a subclass has methods of its own, and is no key
    if listed:
        return path
    slash = PyUnicode_FindChar(path, u"/", 0, PyUnicode_GET_LENGTH(path), -1)
    return "" if slash < 0 else PyUnicode_Substring(path, 0, slash + 1)


cdef FileSystem of_path(object path, bint listed, object dir_fd):
    """That of a path's directory (of the path itself, if it is `listed`), or None if it is not known."""
    global latest_directory, latest_there
    cdef PyObject* found
    cdef Py_ssize_t size = -1
    if type(path) is str and dir_fd is None and not listed:
        size = syncless_directory_size(path)
        if size >= 0 and latest_directory is not None and syncless_begins_with(path, latest_directory, size):
            return latest_there
    if type(path) is int:
        return of_number(path)
    if dir_fd is not None and type(dir_fd) is int:
        return of_number(dir_fd)
    key = directory_of(path, listed)
    if key is None:
        return None
    found = PyDict_GetItemWithError(directories, key)
    if found == NULL:
        return in_memory(key)
    if size >= 0:
        latest_directory, latest_there = key, <FileSystem> found
    return <FileSystem> found


cdef FileSystem in_memory(str directory):
    """That of a directory of which the kernel knows without asking its file system; None if it does not, or
    if the file system is new."""
    cdef Kind kind
    cdef int found
    cdef str name = directory.rstrip("/")
    if not name or name.endswith(".") or "\0" in name:
        return None
    points = mount_points()
    plain = name[0] == "/" and "//" not in name and "/." not in name
    if not points or (name if plain else os.path.abspath(name)) in points:
        return None
    encoded = os.fsencode(name)
    found = syncless_look_in_memory(encoded, &kind)
    if found:
        return nowhere if found > 0 else None
    system = devices.get(kind.device)
    if system is not None:
        remember(directory, system)
    return system


cdef int remember(str directory, FileSystem system) except -1:
    if len(directories) >= room:
        directories.clear()
    forget_latest()
    directories[directory] = system
    return 0


cdef int64_t fresh_ns(int fd) noexcept:
    """In a thread: how long the file system takes to tell a descriptor's attributes, past any cache."""
    cdef Kind kind
    cdef int64_t started
    with nogil:
        started = begin_in_thread()
        syncless_look(fd, b"", True, &kind)
        started = took(started)
    return started


cdef PyObject* timed(int64_t started, Trial trial, object function, PyObject** args, size_t count,
        PyObject* names) except NULL:
    """function() with these arguments, directly, as its trial allows."""
    cdef PyObject* made = PyObject_Vectorcall(function, args, count, names)
    cdef PyObject* raised[3]
    started = took(started)
    if started > SLOW_NS:
        if made == NULL:
            set_aside(raised)
        trial.answered(started, False)
        if made == NULL:
            put_back(raised)
    return made


def _timed(Trial trial, function, tuple args, dict kwargs):
    """In a thread."""
    cdef int64_t started = begin_in_thread()
    try:
        return function(*args, **kwargs)
    finally:
        trial.answered(took(started), True)


cdef object tried(Trial trial, object function, tuple args, dict kwargs):
    """function(*args, **kwargs), directly or in a thread, by what its trial has shown."""
    cdef int64_t started
    if not trial.direct():
        return trial.system.share.run(_timed, trial, function, args, kwargs)
    started = begin_call()
    try:
        return function(*args, **kwargs)
    finally:
        trial.answered(took(started), False)


def _measured(directory, int fd, key, function, tuple args, dict kwargs):
    """In a thread: the call, and before it how long its file system takes to tell what stands there, past any
    cache."""
    cdef Kind kind
    cdef int error = 0
    cdef int64_t spent
    cdef FileSystem system
    cdef Trial trial
    cdef const char* name = b""
    encoded = os.fsencode(directory) if directory else b"."
    if fd < 0:
        if 0 in <bytes> encoded:
            return function(*args, **kwargs)        # which says so
        name = encoded
    with nogil:
        spent = begin_in_thread()
        if syncless_look(fd if fd >= 0 else AT_FDCWD, name, True, &kind):
            error = errno
        spent = took(spent)
    if error == ENOENT or error == ENOTDIR:
        system = nowhere
    elif error or not kind.file:
        return function(*args, **kwargs)
    else:
        system = of_device(kind.device)
        if fd < 0:
            remember(directory, system)
    trial = system.trial_of(key)
    if spent > SLOW_NS:
        trial.answered(SLOW_NS + LOCK_NS + 1, True)
        return function(*args, **kwargs)
    return _timed(trial, function, args, kwargs)


cdef object share_of(directory):
    point = mount_of(directory)
    found = shares.get(point)
    if found is None:
        found = shares[point] = Share(THREADS)
    return found


cdef object in_pool_of(object path, bint listed, object dir_fd, object key, object function, tuple args,
        dict kwargs):
    """function(*args, **kwargs) in a thread; the file system of the path is measured there. `key`: the
    operation on trial."""
    cdef FileSystem system
    fd = path if type(path) is int else dir_fd if type(dir_fd) is int else -1
    directory = directory_of(path, listed) if fd == -1 else None
    if fd == -1 and directory is None or not -1 <= fd <= INT_MAX:
        return elsewhere.run(function, *args, **kwargs)
    system = of_path(path, listed, dir_fd)
    share = system.share if system is not None else share_of(directory) if fd == -1 else elsewhere
    return share.run(_measured, directory, fd, key, function, args, kwargs)


cdef object in_pool(int fd, object function, tuple args, dict kwargs):
    """function(*args, **kwargs) in a thread of a descriptor's file system; -1 if there is none."""
    cdef FileSystem system = of_descriptor(fd) if fd >= 0 else None
    return (system.share if system is not None else elsewhere).run(function, *args, **kwargs)


cdef extern from *:
    """
    #include "syncless_config.h"
    #include <errno.h>
    #include <stdlib.h>
    #include <sys/uio.h>
    #include <unistd.h>

    static int syncless_absent(int fd, long long offset) {    /* -1: the file system does not say */
    #if SYNCLESS_PREADV2
        char byte;
        struct iovec piece = {&byte, 1};
        if (preadv2(fd, &piece, 1, (off_t) offset, RWF_NOWAIT) >= 0)
            return 0;
        return errno == EAGAIN ? 1 : -1;
    #else
        return -1;
    #endif
    }

    static void syncless_bring_in(int fd, long long offset, long long count) {
        size_t room = 1 << 17;
        char *into = malloc(room);
        ssize_t n = 1;
        while (into && count > 0 && n > 0) {
            n = pread(fd, into, (long long) room < count ? room : (size_t) count, (off_t) offset);
            offset += n;
            count -= n;
        }
        free(into);
    }
    """
    int syncless_absent(int fd, long long offset) noexcept nogil
    void syncless_bring_in(int fd, long long offset, long long count) noexcept nogil


cdef bint lies_in_memory(int fd, int64_t offset, int64_t count) noexcept:
    """Return whether reading that part need not wait for a disk; True as well where the file system does not
    say."""
    if syncless_absent(fd, offset) > 0:
        return False
    return count <= 1 or syncless_absent(fd, offset + count - 1) <= 0


cdef bint reads_at_once(FileSystem system, int fd, int64_t offset, int64_t count) except -1:
    """Return whether that part of a file can be read without waiting, as far as it is known: where the file
    system does not say, by the trial of reads. `count` is at least 1."""
    cdef int absent
    if system.slow > 0 or mode == POOL:
        return False
    absent = syncless_absent(fd, offset)
    if absent == 0 and count > 1:
        absent = syncless_absent(fd, offset + count - 1)
    return absent == 0 if absent >= 0 else system.trial_of("read").direct()


def bring_in(int fd, int64_t offset, int64_t count) -> None:
    """Reads that part, for a thread. Errors are left to the next reader."""
    with nogil:
        syncless_bring_in(fd, offset, count)


cdef int64_t MOUNTS_NS = 1000000000
# the interpreter's own, whatever is put in their place later
cdef object _open = original_of(os.open), _read = original_of(os.read), _close = original_of(os.close)


cdef list points = []                   # the longest first
cdef int64_t points_at = -MOUNTS_NS


cdef list mount_points():
    """They are read at most once in MOUNTS_NS. The kernel tells them without asking their file systems."""
    global points, points_at
    if monotonic_ns() - points_at > MOUNTS_NS:
        points_at = monotonic_ns()
        try:
            fd = _open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            points = []
            return []
        pieces = []
        while piece := _read(fd, 65536):
            pieces.append(piece)
        _close(fd)
        found = [line.split()[4] for line in b"".join(pieces).splitlines()]
        found.sort(key=len, reverse=True)
        points = [os.fsdecode(point.replace(b"\\040", b" ")) for point in found]
    return points


cdef str mount_of(directory):
    """Return the mount point in which a directory seems to lie; links may lead elsewhere. "" if that is
    unknown."""
    try:
        path = os.path.abspath(directory)
    except (OSError, ValueError):
        return ""
    for point in mount_points():
        if path.startswith(point) and (len(path) == len(point) or path[len(point)] == "/" or point == "/"):
            return point
    return ""
