"""Which C functions an OS thread is in: for reports of code that holds the loop.

Takes a thread. Gives the functions that it is in, as far as the interpreter that called them, with their
files. It must not know what a loop is.

A thread that computes is sent a signal, whose handler walks its stack. SIGURG is ignored by default, and
programs do not wait for it. A signal would break off a wait, and not every library begins it again. So of a
thread that waits in the kernel, which says where its stack is, the stack is read from here: each word on it
that lies behind a call instruction. Among them may be one that an earlier call has left.

Both end at the interpreter's own code. Below it there may be another tasklet's stack that was copied away.
"""

import itertools


cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <dlfcn.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <link.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #include <unwind.h>

    enum { SYNCLESS_FRAMES = 48, SYNCLESS_SEGMENTS = 1024 };

    static struct {
        void *frames[SYNCLESS_FRAMES];
        int count;
        int is_done;        /* the handler has run */
        int skip;           /* frames of the handler itself */
        uintptr_t start, end; /* the interpreter's code */
    } syncless_walk;

    static int syncless_walker; /* the process whose thread is walking: a child may be forked meanwhile */

    /* The code of all loaded objects. */
    static struct {
        struct { uintptr_t start, end; } segments[SYNCLESS_SEGMENTS];
        int count;
    } syncless_code;

    static int syncless_note_code(struct dl_phdr_info *info, size_t size, void *context) {
        for (int i = 0; i < info->dlpi_phnum && syncless_code.count < SYNCLESS_SEGMENTS; i++) {
            const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
            if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
                continue;
            uintptr_t start = info->dlpi_addr + segment->p_vaddr;
            syncless_code.segments[syncless_code.count].start = start;
            syncless_code.segments[syncless_code.count++].end = start + segment->p_memsz;
        }
        return 0;
    }

    static int syncless_find_python(struct dl_phdr_info *info, size_t size, void *context) {
        uintptr_t inside = (uintptr_t)PyEval_EvalCode;
        for (int i = 0; i < info->dlpi_phnum; i++) {
            const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
            uintptr_t start = info->dlpi_addr + segment->p_vaddr;
            if (segment->p_type == PT_LOAD && inside >= start && inside - start < segment->p_memsz) {
                syncless_walk.start = start;
                syncless_walk.end = start + segment->p_memsz;
                return 1;
            }
        }
        return 0;
    }

    static _Unwind_Reason_Code syncless_note_frame(struct _Unwind_Context *context, void *argument) {
        int before = 0;
        uintptr_t place = (uintptr_t)_Unwind_GetIPInfo(context, &before);
        if (syncless_walk.skip > 0) {   /* the handler, and the kernel's frame below it */
            syncless_walk.skip--;
            return _URC_NO_REASON;
        }
        if (place >= syncless_walk.start && place < syncless_walk.end)
            return _URC_END_OF_STACK;
        if (!place || syncless_walk.count == SYNCLESS_FRAMES)
            return _URC_END_OF_STACK;
        syncless_walk.frames[syncless_walk.count++] = (void *)(before ? place : place - 1);
        return _URC_NO_REASON;
    }

    static void syncless_on_urgent(int number, siginfo_t *info, void *context) {
        int error = errno;
        syncless_walk.count = 0;
        syncless_walk.skip = 2;
        _Unwind_Backtrace(syncless_note_frame, NULL);
        __atomic_store_n(&syncless_walk.is_done, 1, __ATOMIC_RELEASE);
        errno = error;
    }

    /* What the kernel says of the thread. A file of Python's would let other tasklets run. */
    static size_t syncless_syscall_of(int number, char *text, size_t room) {
        ssize_t n = -1;
        snprintf(text, room, "/proc/self/task/%d/syscall", number);
        int fd = open(text, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            n = read(fd, text, room);
            close(fd);
        }
        return n > 0 ? n : 0;
    }

    /* Asks the thread, for at most a second: on a busy machine it may not run at once. Returns how many
       frames there are; -1: it has not run. */
    static int syncless_ask(unsigned long thread) {
        struct sigaction ours, before;
        struct timespec pause = {0, 500000};
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = syncless_on_urgent;
        ours.sa_flags = SA_SIGINFO | SA_RESTART;
        dl_iterate_phdr(syncless_find_python, NULL);
        if (!syncless_walk.start || sigaction(SIGURG, NULL, &before))
            return -1;
        if (before.sa_sigaction == syncless_on_urgent)
            before.sa_handler = SIG_DFL;    /* forked while a thread of our parent was asked */
        if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
            return -1;      /* the program has a handler of its own */
        syncless_walk.is_done = 0;
        if (sigaction(SIGURG, &ours, NULL))
            return -1;
        int failed = pthread_kill((pthread_t)thread, SIGURG);
        for (int i = 0; !failed && i < 2000; i++) {
            if (__atomic_load_n(&syncless_walk.is_done, __ATOMIC_ACQUIRE))
                break;
            syscall(SYS_nanosleep, &pause, NULL);
        }
        sigaction(SIGURG, &before, NULL);
        return !failed && syncless_walk.is_done ? syncless_walk.count : -1;
    }

    static int syncless_is_code(uintptr_t place) {
        for (int i = 0; i < syncless_code.count; i++)
            if (place >= syncless_code.segments[i].start + 8 && place < syncless_code.segments[i].end)
                return 1;
        return 0;
    }

    /* Whether the address is one to which a call returns. Its function may be a static one, which has no
       name.

       Fact: a linker may put constants into the segment of the code, and a word of the stack may be such an
       address. Danger: AddressSanitizer takes the room between constants for forbidden, and ends the process.
       Decision: it does not look here. Guarded by
       tests/http/test_fuzz.py::test_takeovers_lose_no_request_and_double_none. */
    __attribute__((no_sanitize_address))
    static int syncless_is_return(uintptr_t place) {
        const unsigned char *code = (const unsigned char *)place;
        if (!syncless_is_code(place) || !syncless_is_code(place - 7))
            return 0;
    #if defined __x86_64__
        return code[-5] == 0xe8 || (code[-2] == 0xff && (code[-1] & 0x38) == 0x10)
            || (code[-3] == 0xff && (code[-2] & 0x38) == 0x10) || (code[-6] == 0xff && code[-5] == 0x15)
            || (code[-7] == 0xff && (code[-6] & 0x38) == 0x10);
    #elif defined __aarch64__
        uint32_t before;
        memcpy(&before, code - 4, 4);
        return (before & 0xfc000000) == 0x94000000 || (before & 0xfffffc1f) == 0xd63f0000;
    #else
        return 0;
    #endif
    }

    /* What the kernel calls a call, if it waits. glibc 2.41 makes it in a function that has no name. */
    static const char *syncless_call_name(long number) {
        switch (number) {
    #define SYNCLESS_CALL(name) case SYS_##name: return #name;
        SYNCLESS_CALL(read) SYNCLESS_CALL(readv) SYNCLESS_CALL(write) SYNCLESS_CALL(writev)
        SYNCLESS_CALL(recvfrom) SYNCLESS_CALL(recvmsg) SYNCLESS_CALL(sendto) SYNCLESS_CALL(sendmsg)
        SYNCLESS_CALL(connect) SYNCLESS_CALL(accept) SYNCLESS_CALL(accept4) SYNCLESS_CALL(ppoll)
        SYNCLESS_CALL(epoll_pwait) SYNCLESS_CALL(nanosleep) SYNCLESS_CALL(clock_nanosleep)
    #ifdef SYS_poll         /* of older processors */
        SYNCLESS_CALL(poll) SYNCLESS_CALL(select) SYNCLESS_CALL(epoll_wait)
    #endif
        default: return NULL;
        }
    }

    /* Reads the stack of a thread that waits in a call of the kernel. */
    static int syncless_read(uintptr_t stack, uintptr_t place) {
        static uintptr_t words[4096];
        struct iovec here = {words, sizeof words}, there = {(void *)stack, sizeof words};
        int count = 0;
        dl_iterate_phdr(syncless_find_python, NULL);
        syncless_code.count = 0;
        dl_iterate_phdr(syncless_note_code, NULL);
        ssize_t size = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        syncless_walk.frames[count++] = (void *)place;
        for (ssize_t i = 0; i < size / (ssize_t)sizeof *words && count < SYNCLESS_FRAMES; i++) {
            int is_python = words[i] >= syncless_walk.start && words[i] < syncless_walk.end;
            if (is_python && syncless_is_return(words[i]))
                break;
            if (syncless_is_return(words[i]))
                syncless_walk.frames[count++] = (void *)(words[i] - 1);
        }
        return count;
    }

    /* The first walk of a process loads and registers what walks need. */
    static _Unwind_Reason_Code syncless_stop(struct _Unwind_Context *context, void *argument) {
        return _URC_END_OF_STACK;
    }

    static void syncless_prepare(void) {
        _Unwind_Backtrace(syncless_stop, NULL);
    }
    """
    ctypedef struct Dl_info:
        const char* dli_fname
        const char* dli_sname
    int dladdr(const void* address, Dl_info* info) nogil
    int ask "syncless_ask" (unsigned long thread) nogil
    size_t syncless_syscall_of(int number, char* text, size_t room) nogil
    const char* call_name "syncless_call_name" (long number) nogil
    int read_stack "syncless_read" (unsigned long stack, unsigned long place) nogil
    void prepare "syncless_prepare" () nogil
    int getpid()
    void** frames "syncless_walk.frames"
    int exchange "__atomic_exchange_n" (int* place, int value, int order)
    void store "__atomic_store_n" (int* place, int value, int order)
    int walker "syncless_walker"
    int ORDERED "__ATOMIC_SEQ_CST"


def native_stack(unsigned long thread, int number) -> list | None:
    """Return the C functions on the stack of another thread, the innermost first, as pairs (name or None,
    path of the file). `thread` and `number` are the thread's threading.get_ident() and get_native_id().

    The list is empty if the thread is in the interpreter itself. Return None if the stack cannot be read: the
    system does not support it, the program handles SIGURG, or another stack is being read.
    """
    cdef int process = getpid()
    if exchange(&walker, process, ORDERED) == process:
        return None
    try:
        return _walk(thread, number)
    finally:
        store(&walker, 0, ORDERED)


cdef list _walk(unsigned long thread, int number):
    cdef Dl_info info
    cdef int i, count
    cdef char text[256]
    cdef const char* call = NULL
    cdef bytes kernel = text[:syncless_syscall_of(number, text, sizeof(text))]
    said = kernel.decode().split()      # nothing if it has ended, or this system does not tell
    if len(said) == 9:
        count = read_stack(int(said[7], 16), int(said[8], 16))
        call = call_name(int(said[0]))
    elif said == ["running"]:
        with nogil:
            count = ask(thread)
    else:
        return None
    if count < 0:
        return None
    found = []
    for i in range(count):
        if not dladdr(frames[i], &info) or info.dli_fname == NULL:
            break
        name = None if info.dli_sname == NULL else (<bytes> info.dli_sname).decode(errors="replace")
        found.append((name, (<bytes> info.dli_fname).decode(errors="surrogateescape")))
    if call != NULL:
        in_libc = list(itertools.takewhile(lambda frame: frame[1] == found[0][1], found))
        if not any(name for name, _ in in_libc):
            found[len(in_libc) - 1] = call.decode(), found[0][1]
    return found


prepare()
