/* Bytes that are replaced as a whole while others read them. A writer swaps a pointer; the old bytes are
   freed when every reader has begun anew since (reclamation by epochs), so a reader takes no lock and
   writes to no memory that others write to.

   A reader is a thread that says when it begins and ends to read. The bytes that it finds between the two
   stay as they are until then. */

#ifndef SYNCLESS_PUBLISH_H
#define SYNCLESS_PUBLISH_H

#include <stddef.h>

struct reader;

/* NULL where there are too many readers. */
struct reader *reader_new(void);
void reader_free(struct reader *reader);
void reader_begin(struct reader *reader);
void reader_end(struct reader *reader);

/* Between begin and end: the bytes of that name; 0 if there are none. */
int find_published(const char *name, size_t name_size, const char **data, size_t *size);

/* 0, or -1 where there is no memory or there are too many names. `data` NULL: nothing has the name any
   more. */
int publish_bytes(const char *name, size_t name_size, const char *data, size_t size);

/* Frees the old bytes that no reader can have any more. Returns how many it must keep. */
int reclaim_published(void);

#endif
