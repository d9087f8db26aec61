"""The entries of loaded objects for functions of libc, and what stands in them.

Takes the path of a loaded object. Gives the entries that hooks can stand in, and puts the hooks there or
takes them away. It must not know which libraries are to be patched (objects.py) nor what a hook does
(hooks.h). elfreader.h reads the objects.

An entry is left alone if it does not lead where our own calls lead: another version of the symbol, or
something that stands in libc's place for this library alone. One that is not bound yet (the linker binds it
at the first call) leads into the object itself.
"""

from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memset, strchr, strcmp
from posix.unistd cimport _SC_PAGESIZE, sysconf

from syncless.patches.libraries.parking cimport find_hook, hook_row

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
    """The paths of all shared objects of the process, in the order in which they were loaded."""
    cdef list paths = []
    dl_iterate_phdr(note_path, <void*> paths)
    return paths


def count_of_loads() -> int:
    """How many objects have been loaded since the start of the process."""
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
        raise FileNotFoundError(f"no object {path} is loaded")
    where[0] = wanted.found
    return elf_open_loaded(image, where.base, where.segments, where.segment_count, sysconf(_SC_PAGESIZE))


cdef int note_needed(const char* name, void* context) noexcept:
    (<list> context).append((<bytes> name).decode(errors="surrogateescape"))
    return 0


def needed_by(str path not None) -> list:
    """The names of the objects that a loaded one was linked against."""
    cdef elf_image image
    cdef Loaded where
    cdef list names = []
    if open_loaded(path, &image, &where) == ELF_OK:
        elf_needed(&image, note_needed, <void*> names)
    return names


# -- hooks in entries ----------------------------------------------------------------------------------------


cdef class Entry:
    """A place in a loaded object that holds the address of a function of libc, and our hook since hook()."""
    cdef readonly str name
    cdef void** place
    cdef const hook_row* row
    cdef bint is_readonly

    def hook(self) -> None:
        self.write(self.row.original, self.row.hook)

    def unhook(self) -> None:
        """libc's function stands there again."""
        self.write(self.row.hook, self.row.original)

    cdef int write(self, void* expected, void* value) except -1:
        if value != self.row.hook and self.place[0] != expected:
            return 0                    # somebody else has changed it since
        if write_entry(self.place, value, self.is_readonly, sysconf(_SC_PAGESIZE)):
            raise MemoryError(f"the entry for {self.name} cannot be made writable")
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
    cdef const hook_row* row = find_hook(found.name)
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


def hookable(str path not None) -> list:
    """The entries of a loaded object that hooks can stand in and do not yet. The object stays loaded from now
    on."""
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
    """The entries in a file, of this or another machine: (name, version, address, whether its page is
    read-only) of each entry. ValueError if the file cannot be read."""
    cdef elf_image image
    cdef list entries = []
    cdef int failed = elf_open_file(&image, <const char*> data, len(data), page_size)
    if failed == ELF_OK:
        failed = elf_entries(&image, note_entry, <void*> entries)
    if failed:
        raise ValueError(
            "no ELF object of 64 bits for x86-64 or aarch64" if failed == ELF_FOREIGN
            else "a damaged ELF object")
    return entries
