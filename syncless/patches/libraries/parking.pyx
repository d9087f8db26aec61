"""The interposers, functions of C in the place of libc's, ask here for tasklets: they park the running one
from a place where the GIL is released.

Takes a descriptor and a deadline from C code without the GIL, see interpose.h. Gives the outcome of the wait.
It takes the GIL for as long as the wait is prepared and others run. The frames of the C library stay on the
carrier's stack.

It also puts interposers into the entries of loaded objects for functions of libc. Takes the path of a loaded
object. Gives the entries that interposers can stand in, and puts them there or takes them away again. It must
not know which libraries are to be patched (objects.py) nor what an interposer does (interpose.h). elfreader.h
reads the objects.

An entry is left alone if it does not lead where our own calls lead: another version of the symbol, or
something that stands in libc's place for this library alone. One that is not bound yet (the linker binds it
at the first call) leads into the object itself.
"""

from cpython.object cimport PyObject
from libc.errno cimport EBADF
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memset, strchr, strcmp
from posix.unistd cimport _SC_PAGESIZE, sysconf

from syncless._core.cpython.compat cimport PyThreadState, Py_IsFinalizing, detached_state
from syncless._core.cpython.counting cimport when_code_goes_on
from syncless._core.current cimport wait_fd
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    IN_C, SHIELDED, TIMED_OUT, BaseTasklet, is_poll_due, keep_pending, next_pending,
)
from syncless._core.threadloop cimport has_loop, peek_loop

from syncless._core.exits import tell_uncaught

cdef extern from "interpose.h" nogil:
    int PARK_WOKEN, PARK_OVER, PARK_BROKEN, PARK_REFUSED, PARK_UNWATCHED, INTERPOSE_ENDS
    int (*interpose_has_loop)() noexcept
    int (*interpose_park)(int fd, int bits, int64_t deadline, int insists) noexcept
    void (*interpose_give_way)() noexcept
    void (*interpose_loaded)() noexcept
    ctypedef struct interpose_counts:
        unsigned long long waits, with_lock, broken, holding_gil, no_tasklet, lock_waits
    interpose_counts interpose_stats
    ctypedef struct interposer:
        const char* name        # of libc's function
        void* function
        void* original
    const interposer* interposer_find(const char* name) noexcept
    void interpose_count(unsigned long long* count) noexcept

cdef extern from "Python.h":
    void PyErr_Fetch(PyObject** kind, PyObject** value, PyObject** trace) noexcept
    void PyErr_Restore(PyObject* kind, PyObject* value, PyObject* trace) noexcept
    int Py_AddPendingCall(int (*function)(void*) except -1, void* argument)

# The first takes the GIL with the thread's own state and the second gives it up. That is what the extension
# does around its call, and needs no count of what is nested, which tasklets would mix up.
cdef extern from "Python.h" nogil:
    void PyEval_RestoreThread(PyThreadState* state) noexcept
    PyThreadState* PyEval_SaveThread() noexcept

cdef extern from *:
    """
    /* Called with the GIL, though not by Cython's knowledge. */
    typedef int (*syncless_with_gil)(int fd, int bits, int64_t deadline, int insists);
    """
    ctypedef int (*WithGil "syncless_with_gil")(
        int fd, int bits, int64_t deadline, int insists) noexcept nogil


cdef int has_loop_here() noexcept nogil:
    return has_loop()


cdef int park(int fd, int bits, int64_t deadline, int insists) noexcept nogil:
    """interpose_park of interpose.h."""
    cdef int holds
    if detached_state(&holds) == NULL and holds:
        interpose_count(&interpose_stats.holding_gil)
        return PARK_REFUSED
    return attached(<WithGil> <void*> park_tasklet, fd, bits, deadline, insists)


cdef void give_way() noexcept nogil:
    """interpose_give_way of interpose.h."""
    attached(<WithGil> <void*> take_turns, 0, 0, 0, 0)


cdef void loaded() noexcept nogil:
    """interpose_loaded of interpose.h. The caller may hold the GIL."""
    cdef int holds
    detached_state(&holds)
    if holds:
        (<WithGil> <void*> tell_of_load)(0, 0, 0, 0)
    else:
        attached(<WithGil> <void*> tell_of_load, 0, 0, 0, 0)


cdef int attached(WithGil function, int fd, int bits, int64_t deadline, int insists) noexcept nogil:
    """Return the function with the GIL, if this thread runs Python code and has released it."""
    cdef int holds, outcome
    cdef PyThreadState* state = detached_state(&holds)
    if state == NULL:
        return PARK_REFUSED
    PyEval_RestoreThread(state)
    outcome = function(fd, bits, deadline, insists)
    PyEval_SaveThread()
    return outcome


cdef enum:
    INTERRUPTED = -1    # Ctrl-C has ended a wait that insists, and is kept


cdef int park_tasklet(int fd, int bits, int64_t deadline, int insists) noexcept:
    """Park the running tasklet. An exception that was set before is set afterwards: a destructor may be what
    waits.

    Fact: an exception that was thrown stays pending until Python raises it. Danger: each further wait of the
    C code would end at once, so that a loop that repeats its sleep or its call never lets others run.
    Decision: once a call was broken off, a pause goes on to its end, and others run before each further wait
    that is broken off. Guarded by tests/patches/test_native.py::test_repeated_pause_goes_on_after_a_kill.

    Fact: a program that retries when the library fails has no wait in which Python could raise. Danger:
    it never ends, and storms a server. Decision: at the second wait that is broken off, and for Ctrl-C at
    the first, the interpreter is asked to raise it as soon as Python code of the tasklet goes on, in place of
    the library's error if that is an exception. Price: otherwise it may be raised in a handler of that error.
    Beside a debugger the interpreter is asked as for a signal: later, and in the main thread only. Guarded by
    tests/patches/test_native.py::test_kill_ends_a_loop_that_tries_again.
    """
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else loop.current
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    cdef int outcome, before
    if me is None or Py_IsFinalizing():
        interpose_count(&interpose_stats.no_tasklet)
        return PARK_REFUSED
    before = me.shielded
    insists = insists or before == SHIELDED
    PyErr_Fetch(&kind, &value, &trace)
    if me.pending is not None and me.broken_off and not insists:
        if fd < 0 or bits & INTERPOSE_ENDS:
            insists = True
        else:
            let_others_run(loop, me)
    outcome = PARK_BROKEN if me.pending is not None and not insists else INTERRUPTED
    while outcome == INTERRUPTED:
        me.shielded = SHIELDED if insists else IN_C
        outcome = wait(loop, me, fd, bits & ~INTERPOSE_ENDS, deadline)
        me.shielded = before
    if me.pending is not None and not insists:
        if me.broken_off or begins_with_interrupt(me.pending):
            due.add(me)
            if not when_code_goes_on(raise_due):
                Py_AddPendingCall(raise_due, NULL)
        me.broken_off = True
        outcome = PARK_BROKEN
    PyErr_Restore(kind, value, trace)
    return outcome


cdef set due = set()            # tasklets that raise what is pending as soon as they run Python code


cdef int raise_due(void* nothing) except -1:
    """Python code runs again."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else loop.current
    cdef bint is_due = me in due
    due.clear()                 # the others are asked again at their next wait
    if is_due and me.pending is not None and me.broken_off and not me.shielded:
        raise next_pending(me)
    return 0


cdef bint begins_with_interrupt(object pending) noexcept:
    """Return whether Ctrl-C is the first of what was thrown."""
    first = pending[0] if type(pending) is list else pending
    return isinstance(first, KeyboardInterrupt)


cdef int let_others_run(Loop loop, BaseTasklet me) noexcept:
    cdef int before = me.shielded
    me.shielded = IN_C
    try:
        loop.yield_()
    except BaseException as error:
        keep_pending_quietly(me, error)
    me.shielded = before
    return 0


cdef int wait(Loop loop, BaseTasklet me, int fd, int bits, int64_t deadline) noexcept:
    cdef int outcome
    try:
        if fd < 0:
            outcome = loop.park("pause in a C library", None, deadline)
            return PARK_OVER if outcome == TIMED_OUT else PARK_WOKEN
        try:
            loop.fds.arm_for_wait(fd, bits)
        except PermissionError:
            return PARK_WOKEN           # epoll refuses regular files: they are always ready
        except OSError as error:
            if error.errno == EBADF:
                return PARK_REFUSED     # the call itself tells of it
            return PARK_UNWATCHED
        try:
            outcome = wait_fd(loop, fd, bits, deadline, "descriptor in a C library", fd)
        finally:
            loop.fds.disarm_after_wait(fd)
        return PARK_OVER if outcome == TIMED_OUT else PARK_WOKEN
    except KeyboardInterrupt as error:
        keep_pending_quietly(me, error)
        return INTERRUPTED
    except BaseException as error:      # nothing was thrown, so the engine itself has failed
        keep_pending_quietly(me, error)
        return PARK_REFUSED


cdef int keep_pending_quietly(BaseTasklet me, object error) noexcept:
    return keep_pending(me, error, False)


cdef int take_turns(int fd, int bits, int64_t deadline, int insists) noexcept:
    """Let others run if it is time, like take_turns() of current.pyx."""
    cdef Loop loop = peek_loop()
    cdef BaseTasklet me = None if loop is None else loop.current
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    if me is None or Py_IsFinalizing() or not is_poll_due(&loop.clock):
        return 0
    PyErr_Fetch(&kind, &value, &trace)
    let_others_run(loop, me)
    PyErr_Restore(kind, value, trace)
    return 0


cdef object on_load = None      # called when a patched library has loaded another object


cdef int tell_of_load(int fd, int bits, int64_t deadline, int insists) noexcept:
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    if on_load is None or Py_IsFinalizing():
        return 0
    PyErr_Fetch(&kind, &value, &trace)
    try:
        on_load()
    except Exception as error:
        tell_uncaught(on_load, error)
    PyErr_Restore(kind, value, trace)
    return 0


def set_on_load(function) -> None:
    """Set the function to call when a patched library has loaded another object. None removes it."""
    global on_load
    on_load = function


def native_stats() -> dict:
    """Return how calls of patched libraries waited, since the start of the process.

    `waits`: a tasklet parked. `with_lock`: the tasklet held a mutex of a patched library meanwhile. `broken`:
    the tasklet was killed or timed out. `lock_waits`: the tasklet waited for a mutex that another tasklet
    held. In two cases the thread itself waited, and all tasklets with it: `holding_gil`, the library was
    called with the GIL held; `no_tasklet`, the caller was a callback of the loop.
    """
    return {
        "waits": interpose_stats.waits,
        "with_lock": interpose_stats.with_lock,
        "broken": interpose_stats.broken,
        "lock_waits": interpose_stats.lock_waits,
        "holding_gil": interpose_stats.holding_gil,
        "no_tasklet": interpose_stats.no_tasklet,
    }


cdef const interposer* find_interposer(const char* name) noexcept:
    """Return the row of a function of libc; NULL if it is not replaced."""
    return interposer_find(name)


interpose_has_loop = has_loop_here
interpose_park = park
interpose_give_way = give_way
interpose_loaded = loaded


cdef extern from "elfreader.h":
    ctypedef struct Elf64_Phdr:
        unsigned int p_type
        uint64_t p_vaddr, p_memsz
    ctypedef struct elf_image:
        int machine
    ctypedef struct elf_entry:
        const char* name
        const char* version
        uint64_t address
        int is_readonly
    int ELF_OK, ELF_FOREIGN, PT_LOAD
    int elf_open_file(elf_image* image, const void* data, size_t size, size_t page_size)
    int elf_open_loaded(elf_image* image, uintptr_t base, const Elf64_Phdr* segments, size_t segment_count,
        size_t page_size)
    int elf_entries(const elf_image* image, int (*each)(const elf_entry*, void*) noexcept, void* context)
    int elf_needed(const elf_image* image, int (*each)(const char*, void*) noexcept, void* context)

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <dlfcn.h>
    #include <link.h>
    #include <sys/mman.h>

    /* The word changes in one step: another thread may be calling through it. */
    static int syncless_write_entry(void **entry, void *value, int is_readonly, size_t page_size) {
        void *page = (void *)((uintptr_t)entry & ~(uintptr_t)(page_size - 1));
        if (is_readonly && mprotect(page, page_size, PROT_READ | PROT_WRITE))
            return -1;
        __atomic_store_n(entry, value, __ATOMIC_RELEASE);
        return is_readonly ? mprotect(page, page_size, PROT_READ) : 0;
    }

    /* Whether a call that is not bound yet will lead where ours do: it asks for the version of the function
       that new programs get. */
    static int syncless_is_default(const char *name, const char *version) {
    #ifdef __GLIBC__
        void *libc = version ? dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD) : NULL;
        int same = libc == NULL || dlvsym(libc, name, version) == dlsym(libc, name);
        if (libc)
            dlclose(libc);
        return same;
    #else
        return 1;
    #endif
    }

    static int syncless_keep_loaded(const char *path) {
        return dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
    }
    """
    struct dl_phdr_info:
        uintptr_t dlpi_addr
        const char* dlpi_name
        const Elf64_Phdr* dlpi_phdr
        unsigned short dlpi_phnum
        unsigned long long dlpi_adds
    int dl_iterate_phdr(int (*each)(dl_phdr_info*, size_t, void*) noexcept, void* context)
    int write_entry "syncless_write_entry" (
        void** entry, void* value, int is_readonly, size_t page_size) nogil
    bint is_default "syncless_is_default" (const char* name, const char* version) nogil
    int keep_loaded "syncless_keep_loaded" (const char* path) nogil

cdef struct Loaded:
    uintptr_t base
    const Elf64_Phdr* segments
    unsigned short segment_count


cdef struct Wanted:
    const char* path
    Loaded found
    int is_found


cdef int note_path(dl_phdr_info* info, size_t size, void* context) noexcept:
    # not the program itself, nor what the kernel has mapped; a relative path stays as it was given
    if info.dlpi_name != NULL and strchr(info.dlpi_name, ord("/")) != NULL:
        (<list> context).append((<bytes> info.dlpi_name).decode(errors="surrogateescape"))
    return 0


cdef int find_path(dl_phdr_info* info, size_t size, void* context) noexcept:
    cdef Wanted* wanted = <Wanted*> context
    if info.dlpi_name == NULL or strcmp(info.dlpi_name, wanted.path):
        return 0
    wanted.found.base = info.dlpi_addr
    wanted.found.segments = info.dlpi_phdr
    wanted.found.segment_count = info.dlpi_phnum
    wanted.is_found = True
    return 1


cdef int note_count(dl_phdr_info* info, size_t size, void* context) noexcept:
    (<unsigned long long*> context)[0] = info.dlpi_adds
    return 1


def loaded_objects() -> list:
    """Return the paths of all shared objects of the process, in the order of loading."""
    cdef list paths = []
    dl_iterate_phdr(note_path, <void*> paths)
    return paths


def count_of_loads() -> int:
    """Return how many objects have been loaded since the start of the process."""
    cdef unsigned long long count = 0
    dl_iterate_phdr(note_count, &count)
    return count


cdef int open_loaded(str path, elf_image* image, Loaded* where) except -1:
    cdef Wanted wanted
    cdef bytes name = path.encode(errors="surrogateescape")
    memset(&wanted, 0, sizeof(wanted))
    wanted.path = name
    dl_iterate_phdr(find_path, &wanted)
    if not wanted.is_found:
        raise FileNotFoundError(f"the object {path} is not loaded")
    where[0] = wanted.found
    return elf_open_loaded(image, where.base, where.segments, where.segment_count, sysconf(_SC_PAGESIZE))


cdef int note_needed(const char* name, void* context) noexcept:
    (<list> context).append((<bytes> name).decode(errors="surrogateescape"))
    return 0


def needed_by(str path not None) -> list:
    """Return the names of the objects that a loaded one was linked against."""
    cdef elf_image image
    cdef Loaded where
    cdef list names = []
    if open_loaded(path, &image, &where) == ELF_OK:
        elf_needed(&image, note_needed, <void*> names)
    return names


# -- interposers in entries ----------------------------------------------------------------------------------


cdef class Entry:
    """A place in a loaded object that contains the address of a libc function, or of our interposer after
    interpose()."""
    cdef readonly str name
    cdef void** place
    cdef const interposer* row
    cdef bint is_readonly

    def interpose(self) -> None:
        self.write(self.row.original, self.row.function)

    def restore(self) -> None:
        """Put the address of libc's function back."""
        self.write(self.row.function, self.row.original)

    cdef int write(self, void* expected, void* value) except -1:
        if value != self.row.function and self.place[0] != expected:
            return 0                    # somebody else has changed it since
        if write_entry(self.place, value, self.is_readonly, sysconf(_SC_PAGESIZE)):
            raise MemoryError(f"cannot make the entry for {self.name} writable")
        return 0


cdef bint lies_in(Loaded* where, void* address) noexcept:
    cdef int i
    cdef uint64_t offset = <uintptr_t> address - where.base
    cdef const Elf64_Phdr* segment
    for i in range(where.segment_count):
        segment = &where.segments[i]
        if segment.p_type == <unsigned int> PT_LOAD and segment.p_vaddr <= offset:
            if offset - segment.p_vaddr < segment.p_memsz:
                return True
    return False


cdef struct Gathering:
    void* entries       # the list
    Loaded* where


cdef int gather(const elf_entry* found, void* context) noexcept:
    cdef Gathering* gathering = <Gathering*> context
    cdef const interposer* row = find_interposer(found.name)
    cdef void** place
    cdef Entry entry
    if row == NULL:
        return 0
    place = <void**> (gathering.where.base + found.address)
    if place[0] != row.original:
        if not lies_in(gathering.where, place[0]) or not is_default(found.name, found.version):
            return 0
    entry = Entry.__new__(Entry)
    entry.name = (<bytes> found.name).decode()
    entry.place = place
    entry.row = row
    entry.is_readonly = found.is_readonly
    (<list> gathering.entries).append(entry)
    return 0


def interposable(str path not None) -> list:
    """Return the entries of a loaded object into which interposers can still be put. The object stays loaded
    from now on."""
    cdef elf_image image
    cdef Loaded where
    cdef Gathering gathering
    cdef list entries = []
    if open_loaded(path, &image, &where) != ELF_OK:
        return entries
    gathering.entries = <void*> entries
    gathering.where = &where
    elf_entries(&image, gather, &gathering)
    if entries:
        keep_loaded(path.encode(errors="surrogateescape"))
    return entries


# -- files ---------------------------------------------------------------------------------------------------


cdef int note_entry(const elf_entry* found, void* context) noexcept:
    version = None if found.version == NULL else (<bytes> found.version).decode(errors="replace")
    name = (<bytes> found.name).decode(errors="replace")
    (<list> context).append((name, version, found.address, bool(found.is_readonly)))
    return 0


def entries_of_file(bytes data not None, size_t page_size=4096) -> list:
    """Return the entries in a file built for this or another machine, each as (name, version, address,
    whether its page is read-only). Raise ValueError if the file cannot be parsed."""
    cdef elf_image image
    cdef list entries = []
    cdef int failed = elf_open_file(&image, <const char*> data, len(data), page_size)
    if failed == ELF_OK:
        failed = elf_entries(&image, note_entry, <void*> entries)
    if failed:
        raise ValueError(
            "not a 64-bit ELF object for x86-64 or aarch64" if failed == ELF_FOREIGN
            else "a damaged ELF object")
    return entries
