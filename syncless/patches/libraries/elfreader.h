/* Which calls of other libraries an ELF object makes: a reader of its relocations.

   Takes an image of 64 bits in our byte order, x86-64 or aarch64: a file in memory, or an object that the
   dynamic linker has loaded. Gives an entry for each place that holds the address of a function of another
   object (the global offset table, and tables of functions in its data). Nothing is allocated, nothing
   called, and no byte is read that does not lie in the image, whatever the image says. It knows neither
   Python nor the dynamic linker. */

#ifndef SYNCLESS_ELFREADER_H
#define SYNCLESS_ELFREADER_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const unsigned char *bytes; /* the file, or where address 0 of a loaded object lies */
    size_t size;                /* of the file; 0: a loaded object */
    const Elf64_Phdr *segments;
    size_t segment_count;
    int machine;      /* EM_X86_64 or EM_AARCH64 */
    size_t page_size; /* as the dynamic linker rounds to it */
} elf_image;

typedef struct {
    const char *name;    /* of the function */
    const char *version; /* which the object asks for, "GLIBC_2.2.5"; NULL: any */
    uint64_t address;    /* of the place, counted from the image's address 0 */
    int is_readonly;     /* the linker has made its page read-only after filling it (RELRO) */
} elf_entry;

enum {
    ELF_OK = 0,
    ELF_FOREIGN, /* no ELF image, or of another size of words, byte order or machine */
    ELF_DAMAGED  /* it points outside of itself */
};

/* A file. Its bytes stay the caller's and must stay where they are. */
int elf_open_file(elf_image *image, const void *bytes, size_t size, size_t page_size);

/* A loaded object, as dl_iterate_phdr() tells of it. */
int elf_open_loaded(elf_image *image, uintptr_t base, const Elf64_Phdr *segments, size_t segment_count,
                    size_t page_size);

/* Calls each(entry, context) for every entry; ends early when it returns other than 0. */
int elf_entries(const elf_image *image, int (*each)(const elf_entry *, void *), void *context);

/* Calls each(name, context) for the name of every object that this one needs (DT_NEEDED). */
int elf_needed(const elf_image *image, int (*each)(const char *, void *), void *context);

#endif
