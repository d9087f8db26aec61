/* Which calls of other libraries an ELF object makes. The manual is elfreader.h. */

#include "elfreader.h"

#include <string.h>

enum { NAME_LONGEST = 4096 };

/* The facts of the dynamic section, as addresses in the image. */
typedef struct {
    uint64_t strings, symbols, versions, needs, need_count;
    uint64_t tables[2], sizes[2]; /* relocations of data, and of calls */
} dynamic;

/* `size` bytes at an address of the image; NULL if they are not in it. */
static const void *at(const elf_image *image, uint64_t address, uint64_t size) {
    for (size_t i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        uint64_t there = image->size ? segment->p_filesz : segment->p_memsz;
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr)
            continue;
        uint64_t offset = address - segment->p_vaddr;
        if (offset > there || size > there - offset)
            continue;
        if (!image->size)
            return image->bytes + address;
        if (segment->p_offset > image->size || offset > image->size - segment->p_offset)
            return NULL;
        if (size > image->size - segment->p_offset - offset)
            return NULL;
        return image->bytes + segment->p_offset + offset;
    }
    return NULL;
}

/* The same for a struct, which must lie where one of its alignment may. */
static const void *struct_at(const elf_image *image, uint64_t address, uint64_t size, size_t alignment) {
    const void *found = at(image, address, size);
    return (uintptr_t)found % alignment ? NULL : found;
}

/* A text of the image; NULL if it does not end in it. */
static const char *text_at(const elf_image *image, uint64_t address) {
    for (size_t length = 0; length < NAME_LONGEST; length++) {
        const char *end = at(image, address + length, 1);
        if (end == NULL)
            return NULL;
        if (*end == 0)
            return at(image, address, length + 1);
    }
    return NULL;
}

static int check_machine(elf_image *image, const Elf64_Ehdr *head) {
    const uint16_t one = 1;
    int order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64)
        return ELF_FOREIGN;
    if (head->e_ident[EI_DATA] != order)
        return ELF_FOREIGN;
    image->machine = head->e_machine;
    return image->machine == EM_X86_64 || image->machine == EM_AARCH64 ? ELF_OK : ELF_FOREIGN;
}

int elf_open_file(elf_image *image, const void *bytes, size_t size, size_t page_size) {
    const Elf64_Ehdr *head = bytes;
    if (size < sizeof *head || check_machine(image, head))
        return ELF_FOREIGN;
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phoff % 8 || head->e_phoff > size)
        return ELF_DAMAGED;
    if (head->e_phnum > (size - head->e_phoff) / sizeof(Elf64_Phdr))
        return ELF_DAMAGED;
    image->bytes = bytes;
    image->size = size;
    image->page_size = page_size;
    image->segments = (const Elf64_Phdr *)(image->bytes + head->e_phoff);
    image->segment_count = head->e_phnum;
    return ELF_OK;
}

int elf_open_loaded(elf_image *image, uintptr_t base, const Elf64_Phdr *segments, size_t segment_count,
                    size_t page_size) {
    image->bytes = (const unsigned char *)base;
    image->size = 0;
    image->page_size = page_size;
    image->segments = segments;
    image->segment_count = segment_count;
    for (size_t i = 0; i < segment_count; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset == 0
            && segments[i].p_filesz >= sizeof(Elf64_Ehdr))
            return check_machine(image, (const Elf64_Ehdr *)(image->bytes + segments[i].p_vaddr));
    return ELF_FOREIGN;
}

/* glibc replaces addresses in the dynamic section of a loaded object by pointers, musl does not. */
static uint64_t unmoved(const elf_image *image, uint64_t value) {
    uint64_t base = (uint64_t)(uintptr_t)image->bytes;
    return !image->size && value >= base ? value - base : value;
}

/* The i-th row of the dynamic section; NULL after the last. */
static const Elf64_Dyn *row(const elf_image *image, size_t i) {
    for (size_t s = 0; s < image->segment_count; s++) {
        const Elf64_Phdr *segment = &image->segments[s];
        if (segment->p_type != PT_DYNAMIC || (i + 1) * sizeof(Elf64_Dyn) > segment->p_memsz)
            continue;
        const Elf64_Dyn *found;
        found = struct_at(image, segment->p_vaddr + i * sizeof *found, sizeof *found, 8);
        if (found != NULL && found->d_tag != DT_NULL)
            return found;
    }
    return NULL;
}

static int read_dynamic(const elf_image *image, dynamic *read) {
    const Elf64_Dyn *found;
    uint64_t kind = DT_RELA;
    memset(read, 0, sizeof *read);
    for (size_t i = 0; (found = row(image, i)) != NULL; i++) {
        uint64_t value = found->d_un.d_val;
        switch (found->d_tag) {
        case DT_STRTAB: read->strings = unmoved(image, value); break;
        case DT_SYMTAB: read->symbols = unmoved(image, value); break;
        case DT_VERSYM: read->versions = unmoved(image, value); break;
        case DT_VERNEED: read->needs = unmoved(image, value); break;
        case DT_VERNEEDNUM: read->need_count = value; break;
        case DT_RELA: read->tables[0] = unmoved(image, value); break;
        case DT_RELASZ: read->sizes[0] = value; break;
        case DT_JMPREL: read->tables[1] = unmoved(image, value); break;
        case DT_PLTRELSZ: read->sizes[1] = value; break;
        case DT_PLTREL: kind = value; break;
        }
    }
    if (kind != DT_RELA) /* neither machine has others */
        return ELF_DAMAGED;
    return ELF_OK;
}

/* The name of the version that the object asks for, by its number in the table of versions. */
static const char *version_of(const elf_image *image, const dynamic *read, uint64_t symbol) {
    const Elf64_Half *number = NULL;
    uint64_t place = read->needs;
    if (read->versions && read->needs)
        number = struct_at(image, read->versions + symbol * sizeof *number, sizeof *number, 2);
    if (number == NULL || (*number & 0x7fff) < 2) /* 0 and 1: any */
        return NULL;
    for (uint64_t i = 0; i < read->need_count; i++) {
        const Elf64_Verneed *need = struct_at(image, place, sizeof *need, 4);
        if (need == NULL)
            return NULL;
        uint64_t auxiliary = place + need->vn_aux;
        for (unsigned k = 0; k < need->vn_cnt; k++) {
            const Elf64_Vernaux *one = struct_at(image, auxiliary, sizeof *one, 4);
            if (one == NULL)
                return NULL;
            if ((one->vna_other & 0x7fff) == (*number & 0x7fff))
                return text_at(image, read->strings + one->vna_name);
            if (one->vna_next == 0)
                break;
            auxiliary += one->vna_next;
        }
        if (need->vn_next == 0)
            return NULL;
        place += need->vn_next;
    }
    return NULL;
}

/* Whether a relocation writes the bare address of a function. */
static int writes_address(const elf_image *image, const Elf64_Rela *one) {
    uint64_t type = ELF64_R_TYPE(one->r_info);
    if (one->r_addend)
        return 0;
    if (image->machine == EM_X86_64)
        return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_ABS64;
}

/* The linker protects whole pages only, rounding both ends down. */
static int is_readonly(const elf_image *image, uint64_t address) {
    uint64_t pages = ~(uint64_t)(image->page_size - 1);
    for (size_t i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        if (segment->p_type == PT_GNU_RELRO && (address & pages) >= (segment->p_vaddr & pages)
            && (address & pages) < ((segment->p_vaddr + segment->p_memsz) & pages))
            return 1;
    }
    return 0;
}

int elf_entries(const elf_image *image, int (*each)(const elf_entry *, void *), void *context) {
    dynamic read;
    if (read_dynamic(image, &read))
        return ELF_DAMAGED;
    for (int table = 0; table < 2; table++) {
        for (uint64_t i = 0; i < read.sizes[table] / sizeof(Elf64_Rela); i++) {
            const Elf64_Rela *one = struct_at(image, read.tables[table] + i * sizeof *one, sizeof *one, 8);
            if (one == NULL)
                return ELF_DAMAGED;
            if (!writes_address(image, one))
                continue;
            uint64_t number = ELF64_R_SYM(one->r_info);
            const Elf64_Sym *symbol;
            symbol = struct_at(image, read.symbols + number * sizeof *symbol, sizeof *symbol, 8);
            if (symbol == NULL)
                return ELF_DAMAGED;
            if (symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0)
                continue; /* its own */
            elf_entry entry = {NULL, NULL, one->r_offset, is_readonly(image, one->r_offset)};
            entry.name = text_at(image, read.strings + symbol->st_name);
            if (entry.name == NULL || at(image, entry.address, 8) == NULL)
                return ELF_DAMAGED;
            entry.version = version_of(image, &read, number);
            int ended = each(&entry, context);
            if (ended)
                return ended;
        }
    }
    return ELF_OK;
}

int elf_needed(const elf_image *image, int (*each)(const char *, void *), void *context) {
    dynamic read;
    const Elf64_Dyn *found;
    if (read_dynamic(image, &read))
        return ELF_DAMAGED;
    for (size_t i = 0; (found = row(image, i)) != NULL; i++) {
        if (found->d_tag != DT_NEEDED)
            continue;
        const char *name = text_at(image, read.strings + found->d_un.d_val);
        if (name == NULL)
            return ELF_DAMAGED;
        int ended = each(name, context);
        if (ended)
            return ended;
    }
    return ELF_OK;
}
