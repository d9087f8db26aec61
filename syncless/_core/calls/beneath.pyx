"""Opening a file that must lie beneath a directory, wherever symbolic links lead.

Takes a path that strangers have chosen. Fact: between a look at a path and its opening somebody may put a
symbolic link into it. Decision: the kernel itself refuses to leave the directory (openat2 with
RESOLVE_BENEATH). Where it cannot (Linux before 5.6, some sandboxes), the path is opened part by part, and any
symbolic link is refused. Price: a system call for each part there. Guarded by tests/core/test_beneath.py.

Nothing waits for the other end of a FIFO, and no terminal becomes the process's own: look at `mode` before
you read.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport errno
from libc.string cimport strlen

from syncless._core.calls.files cimport tried_on

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <limits.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    #define SYNCLESS_OPEN (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    #ifndef O_PATH
    #define O_PATH O_RDONLY
    #endif

    static int syncless_walks = 0;      /* whether the kernel cannot do it */

    static int syncless_walk(int directory, const char *path) {
        char part[NAME_MAX + 1];
        int here = directory, next, error;
        for (;;) {
            const char *end = strchrnul(path, '/');
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
    #if defined(__linux__)
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
        *modified = about.st_mtim.tv_sec * 1000000000LL + about.st_mtim.tv_nsec;
        return 0;
    }
    """
    int syncless_walks
    int syncless_open_beneath(int directory, const char* path) nogil
    int syncless_open_directory(const char* path) nogil
    int syncless_about(int fd, unsigned int* mode, long long* size, long long* modified) nogil
    int close_now "close" (int fd) nogil

cdef object close = os.close


cdef class OpenFile:
    """A descriptor that is closed when the object goes, and what the file was when it was opened: `mode`,
    `size` in bytes, `modified` in nanoseconds."""
    cdef readonly int fd
    cdef readonly unsigned int mode
    cdef readonly long long size, modified

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


cdef object opened(bytes path, int directory):
    """`directory`: -1 for a path that is a directory of our own."""
    cdef OpenFile file = OpenFile()
    cdef const char* name = PyBytes_AS_STRING(path)
    cdef int failed
    if <Py_ssize_t> strlen(name) != PyBytes_GET_SIZE(path):
        raise ValueError("embedded null byte")
    with nogil:
        file.fd = syncless_open_beneath(directory, name) if directory >= 0 else syncless_open_directory(name)
        failed = file.fd < 0 or syncless_about(file.fd, &file.mode, &file.size, &file.modified)
    if failed:
        raise OSError(errno, os.strerror(errno), os.fsdecode(path))
    return file


def open_beneath(bytes path not None, *, int dir_fd) -> OpenFile:
    """The file at a relative path below a directory. OSError: EXDEV if the path leads out of it."""
    return opened(path, dir_fd)


def open_directory(bytes path not None) -> OpenFile:
    """A directory for open_beneath(). OSError."""
    return opened(path, -1)


def walk_parts(bint wanted) -> bool:
    """Whether paths are opened part by part, as where the kernel cannot do it; returns what it was before."""
    global syncless_walks
    was, syncless_walks = syncless_walks, wanted
    return bool(was)
