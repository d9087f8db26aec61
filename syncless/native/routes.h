/* Which handler answers a request: exact paths by a hash table, others by their segments. Built once and
   never changed, so it is read without locks, by the threads and by the Python server, which asks what to
   give back. */

#ifndef SYNCLESS_ROUTES_H
#define SYNCLESS_ROUTES_H

#include <stddef.h>
#include <stdint.h>

#include "head.h"
#include "syncless/native.h"

enum { PARAMETERS = 8 };                /* of one route, at most */

struct segment {
    const char *text;                   /* the literal, or the parameter's name */
    size_t size;
    char kind;                          /* '=' a literal, '{' one segment, '*' all that is left */
};

struct route {
    const char *method;                 /* NULL: any */
    size_t method_size;
    const char *path;
    size_t path_size;
    const char *name;                   /* for people */
    syncless_handler handler;
    void *context;
    int pieces;                         /* the handler takes bodies in pieces */
    int segment_count;                  /* 0: the path as it is */
    struct segment segments[16];
    const struct route *next;           /* with the same exact path */
};

struct match {
    const struct route *route;
    struct { uint32_t start, size; } parameters[PARAMETERS];    /* in the decoded path */
};

struct routes {
    struct route *all;                  /* in the order in which they are tried */
    int count;
    int patterns;                       /* how many of them have segments */
    uint32_t mask;
    const struct route **exact;         /* by the hash of the path */
};

/* The routes, which are the table's from now on; NULL where there is no memory. */
struct routes *routes_new(struct route *all, int count);
void routes_free(struct routes *routes);

/* Whether there is a route for the method and the decoded path. */
int routes_find(const struct routes *routes, const char *method, size_t method_size, const char *path,
                size_t path_size, struct match *match);

/* The same for a request's head; *path is its path, decoded into `decoded` (as many bytes as
   head->path_size) if it is escaped. */
int routes_find_head(const struct routes *routes, const char *data, const struct head *head, char *decoded,
                     syncless_bytes *path, struct match *match);

#endif
