/* Which handler answers a request. See routes.h. */

#include <stdlib.h>
#include <string.h>

#include "routes.h"

static uint32_t hash_of(const char *data, size_t size) {
    uint32_t hash = 2166136261u;
    while (size--)
        hash = (hash ^ (unsigned char)*data++) * 16777619u;
    return hash;
}

/* The first route of that exact path, or the empty place for it. */
static const struct route **place_of(const struct routes *routes, const char *path, size_t size) {
    uint32_t at = hash_of(path, size) & routes->mask;
    for (;; at = (at + 1) & routes->mask) {
        const struct route *route = routes->exact[at];
        if (!route || (route->path_size == size && !memcmp(route->path, path, size)))
            return &routes->exact[at];
    }
}

struct routes *routes_new(struct route *all, int count) {
    struct routes *routes = calloc(1, sizeof *routes);
    uint32_t size = 8;
    int i;
    if (!routes)
        return NULL;
    while (size < (uint32_t)count * 4)
        size *= 2;
    routes->all = all;
    routes->count = count;
    routes->mask = size - 1;
    routes->exact = calloc(size, sizeof *routes->exact);
    if (!routes->exact) {
        free(routes);
        return NULL;
    }
    for (i = count - 1; i >= 0; i--) {          /* backwards: the first one of a path becomes its first */
        const struct route **place;
        if (all[i].segment_count) {
            routes->patterns++;
            continue;
        }
        place = place_of(routes, all[i].path, all[i].path_size);
        all[i].next = *place;
        *place = &all[i];
    }
    return routes;
}

void routes_free(struct routes *routes) {
    if (!routes)
        return;
    free(routes->exact);
    free(routes->all);
    free(routes);
}

static int fits_method(const struct route *route, const char *method, size_t size) {
    if (!route->method)
        return 1;
    if (route->method_size == size && !memcmp(route->method, method, size))
        return 1;
    return route->method_size == 3 && !memcmp(route->method, "GET", 3) && size == 4 &&
           !memcmp(method, "HEAD", 4);
}

static int fits_path(const struct route *route, const char *path, size_t size, struct match *match) {
    const char *p = path, *end = path + size, *stop;
    int i, parameter = 0;
    for (i = 0; i < route->segment_count; i++) {
        const struct segment *segment = &route->segments[i];
        if (p == end || *p != '/')
            return 0;
        p++;
        if (segment->kind == '*') {
            match->parameters[parameter].start = (uint32_t)(p - path);
            match->parameters[parameter].size = (uint32_t)(end - p);
            return 1;
        }
        stop = memchr(p, '/', end - p);
        if (!stop)
            stop = end;
        if (segment->kind == '=') {
            if (segment->size != (size_t)(stop - p) || memcmp(segment->text, p, segment->size))
                return 0;
        } else {
            if (stop == p)
                return 0;
            match->parameters[parameter].start = (uint32_t)(p - path);
            match->parameters[parameter++].size = (uint32_t)(stop - p);
        }
        p = stop;
    }
    return p == end;
}

int routes_find(const struct routes *routes, const char *method, size_t method_size, const char *path,
                size_t path_size, struct match *match) {
    const struct route *route;
    int i;
    for (route = *place_of(routes, path, path_size); route; route = route->next)
        if (fits_method(route, method, method_size)) {
            match->route = route;
            return 1;
        }
    if (routes->patterns)
        for (i = 0; i < routes->count; i++) {
            route = &routes->all[i];
            if (route->segment_count && fits_method(route, method, method_size) &&
                fits_path(route, path, path_size, match)) {
                match->route = route;
                return 1;
            }
        }
    return 0;
}

int routes_find_head(const struct routes *routes, const char *data, const struct head *head, char *decoded,
                     syncless_bytes *path, struct match *match) {
    path->data = data + head->path;
    path->size = head->path_size;
    if (!path->size) {                          /* http://host, without a slash */
        path->data = "/";
        path->size = 1;
    } else if (head->escaped) {
        path->size = head_decode_path(path->data, path->size, decoded);
        path->data = decoded;
    }
    return !head->websocket &&
           routes_find(routes, data + head->method, head->method_size, path->data, path->size, match);
}
