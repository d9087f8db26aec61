"""Opening a file that must lie beneath a directory, wherever symbolic links lead.

Takes a path that strangers have chosen. Fact: between a look at a path and its opening somebody may put a
symbolic link into it. Decision: the kernel itself refuses to leave the directory (openat2 with
RESOLVE_BENEATH). Where it cannot (Linux before 5.6, some sandboxes), the path is opened part by part, and any
symbolic link is refused. Price: a system call for each part there. Guarded by tests/core/test_beneath.py.

Nothing waits for the other end of a FIFO, and no terminal becomes the process's own: look at `mode` before
you read. A missing file is a number and no exception, because looking for one is common, and an exception
costs as much as five system calls.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EINVAL, ENOENT, errno
from libc.string cimport strlen

from syncless._core.calls.files cimport tried_on

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include "syncless_config.h"
    #include <limits.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #define SYNCLESS_OPEN (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    #ifndef O_PATH
    #define O_PATH O_RDONLY
    #endif
    #ifdef __APPLE__
    #define SYNCLESS_MODIFIED st_mtimespec
    #else
    #define SYNCLESS_MODIFIED st_mtim
    #endif

    static int syncless_walks = 0;      /* whether the kernel cannot do it */

    static int syncless_walk(int directory, const char *path) {
        char part[NAME_MAX + 1];
        int here = directory, next, error;
        for (;;) {
            const char *slash = strchr(path, '/'), *end = slash ? slash : path + strlen(path);
            size_t size = end - path;
            int flags = *end ? O_PATH | O_DIRECTORY | O_CLOEXEC : SYNCLESS_OPEN;
            next = -1;
            if (size > NAME_MAX)
                errno = ENAMETOOLONG;
            else if (size == 0)
                errno = ENOENT;
            else if (size == 2 && !memcmp(path, "..", 2))
                errno = EXDEV;
            else {
                memcpy(part, path, size);
                part[size] = 0;
                next = openat(here, part, flags | O_NOFOLLOW);
            }
            if (here != directory) {
                error = errno;
                close(here);
                errno = error;
            }
            if (next < 0 || !*end)
                return next;
            here = next;
            path = end + 1;
        }
    }

    static int syncless_open_beneath(int directory, const char *path) {
    #if SYNCLESS_OPENAT2
    #ifndef SYS_openat2
    #define SYS_openat2 437
    #endif
        struct { unsigned long long flags, mode, resolve; } how = {
            SYNCLESS_OPEN, 0, 0x08 /* RESOLVE_BENEATH */ | 0x02 /* RESOLVE_NO_MAGICLINKS */
        };
        int tries, fd;
        for (tries = 0; !syncless_walks && tries < 32; tries++) {
            fd = (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
            if (fd >= 0 || (errno != EAGAIN && errno != ENOSYS && errno != EPERM))
                return fd;
            if (errno != EAGAIN)        /* else somebody renames directories: once more */
                syncless_walks = 1;
        }
        if (!syncless_walks)
            return -1;
    #endif
        return syncless_walk(directory, path);
    }

    static int syncless_open_directory(const char *path) {
        return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }

    static int syncless_about(int fd, unsigned *mode, long long *size, long long *modified) {
        struct stat about;
        if (fstat(fd, &about))
            return -1;
        *mode = about.st_mode;
        *size = (long long) about.st_size;
        *modified = about.SYNCLESS_MODIFIED.tv_sec * 1000000000LL + about.SYNCLESS_MODIFIED.tv_nsec;
        return 0;
    }

    static ssize_t syncless_from_memory(int fd, char *into, size_t size) {
    #if SYNCLESS_PREADV2
        struct iovec piece = {into, size};
        return size ? preadv2(fd, &piece, 1, 0, RWF_NOWAIT) : 0;
    #else
        return -1;
    #endif
    }
    """
    int syncless_walks
    int syncless_open_beneath(int directory, const char* path) nogil
    int syncless_open_directory(const char* path) nogil
    int syncless_about(int fd, unsigned int* mode, long long* size, long long* modified) nogil
    ssize_t syncless_from_memory(int fd, char* into, size_t size) nogil
    int close_now "close" (int fd) nogil
    int S_ISREG(unsigned int mode) nogil

cdef object close = os.close


cdef class OpenFile:
    """A descriptor that is closed when the object goes, and what the file was when it was opened: `mode`,
    `size` in bytes, `modified` in nanoseconds. `which`: of the names, the one that there is. `data`: its
    content, if that was asked for and lay in memory; then it is closed already, and `fd` is -1."""
    cdef readonly int fd
    cdef readonly unsigned int mode
    cdef readonly long long size, modified
    cdef readonly int which
    cdef readonly bytes data

    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        if self.fd >= 0:
            close_now(self.fd)

    def close(self) -> None:
        """Closes it, as its file system does: directly or in a thread."""
        cdef int fd = self.fd
        self.fd = -1
        if fd >= 0:
            tried_on(fd, close, close, (fd,), {})

    cdef int take(self, int directory, const char* name) noexcept:
        """Opens it; the error, or 0. `directory`: -1 for a path that is a directory of our own."""
        cdef int error = 0
        with nogil:
            if directory >= 0:
                self.fd = syncless_open_beneath(directory, name)
            else:
                self.fd = syncless_open_directory(name)
            if self.fd < 0 or syncless_about(self.fd, &self.mode, &self.size, &self.modified):
                error = errno
        return error

    cdef int read_from_memory(self) except -1:
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> self.size)
        cdef char* into = PyBytes_AS_STRING(data)
        cdef ssize_t n
        with nogil:
            n = syncless_from_memory(self.fd, into, <size_t> self.size)
            if n == self.size:
                close_now(self.fd)
        if n == self.size:
            self.fd = -1
            self.data = data
        return 0


def open_beneath(tuple names not None, *, int dir_fd, int most=0) -> OpenFile | int:
    """The first file that there is of these relative paths (bytes) below a directory, or the number of the
    error of the last one: EXDEV if it leads out of the directory. `most`: a regular file up to this number of
    bytes is read as well."""
    cdef OpenFile file = OpenFile()
    cdef int error = ENOENT
    cdef Py_ssize_t which
    for which in range(len(names)):
        name = <bytes?> names[which]
        error = EINVAL
        if <Py_ssize_t> strlen(PyBytes_AS_STRING(name)) == PyBytes_GET_SIZE(name):
            error = file.take(dir_fd, PyBytes_AS_STRING(name))
        if error == 0:
            file.which = <int> which
            if S_ISREG(file.mode) and file.size <= most:
                file.read_from_memory()
            return file
    return error


def open_directory(bytes path not None) -> OpenFile:
    """A directory for open_beneath(). OSError."""
    cdef OpenFile file = OpenFile()
    cdef int error = file.take(-1, PyBytes_AS_STRING(path))
    if error:
        raise OSError(error, os.strerror(error), os.fsdecode(path))
    return file


def walk_parts(bint wanted) -> bool:
    """Whether paths are opened part by part, as where the kernel cannot do it; returns what it was before."""
    global syncless_walks
    was, syncless_walks = syncless_walks, wanted
    return bool(was)
