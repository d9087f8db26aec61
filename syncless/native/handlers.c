/* The functions that a handler finds in the table of its request. See syncless/native.h. */

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "names.h"
#include "server.h"

static struct call *call_of_request(const syncless_request *request) {
    return (struct call *)((char *)request - offsetof(struct call, request));
}

static struct call *call_of(syncless_response *response) {
    return (struct call *)((char *)response - offsetof(struct call, response));
}

/* -- reading -------------------------------------------------------------------------------------------- */

static int parameter(const syncless_request *request, const char *name, size_t size, syncless_bytes *found) {
    const struct call *call = call_of_request(request);
    const struct route *route = call->match->route;
    int i, number = 0;
    for (i = 0; i < route->segment_count; i++) {
        const struct segment *segment = &route->segments[i];
        if (segment->kind == '=')
            continue;
        if (segment->size == size && !memcmp(segment->text, name, size)) {
            found->data = request->path.data + call->match->parameters[number].start;
            found->size = call->match->parameters[number].size;
            return 1;
        }
        number++;
    }
    return 0;
}

/* The authority of an absolute target replaces the Host field (RFC 9112, 3.2.2). */
static int replaces_host(const struct call *call, int known, syncless_bytes *value) {
    if (known != K_HOST || !call->head->authority_size)
        return 0;
    value->data = call->data + call->head->authority;
    value->size = call->head->authority_size;
    return 1;
}

static int shows(const struct call *call, int known, const char *name, size_t size) {
    return is_shown(&call->thread->server->trust, &call->conn->address, known, name, size);
}

static int field_at(const syncless_request *request, size_t index, syncless_bytes *name,
                    syncless_bytes *value) {
    const struct call *call = call_of_request(request);
    int i;
    for (i = 0; i < request->field_count; i++) {
        const struct head_header *header = &call->head->headers[i];
        name->data = call->data + header->name;
        name->size = header->name_size;
        if (!shows(call, header->known, name->data, name->size) || index--)
            continue;
        if (!replaces_host(call, header->known, value)) {
            value->data = call->data + header->value;
            value->size = header->value_size;
        }
        return 1;
    }
    return 0;
}

static int same_letters(const char *a, const char *b, size_t size) {
    size_t i;
    for (i = 0; i < size; i++) {
        char x = a[i], y = b[i];
        if ((x >= 'A' && x <= 'Z' ? x + 32 : x) != (y >= 'A' && y <= 'Z' ? y + 32 : y))
            return 0;
    }
    return 1;
}

static int field(const syncless_request *request, const char *name, size_t size, syncless_bytes *found) {
    const struct call *call = call_of_request(request);
    int i, known = head_known(name, size);
    if (replaces_host(call, known, found))
        return 1;
    if (!shows(call, known, name, size))
        return 0;
    for (i = 0; i < request->field_count; i++) {
        const struct head_header *header = &call->head->headers[i];
        if (header->known == HEAD_DROPPED)
            continue;
        if (known == HEAD_UNKNOWN ? header->name_size == size &&
                                        same_letters(call->data + header->name, name, size)
                                  : header->known == known) {
            found->data = call->data + header->value;
            found->size = header->value_size;
            return 1;
        }
    }
    return 0;
}

int is_mapped(const struct address *address) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return address->family == AF_INET6 && !memcmp(address->bytes, mapped, 12);
}

/* The address as Python shows it: IPv4 inside IPv6 as IPv4. Its length. */
size_t show_address(const struct address *address, char *text, size_t room) {
    text[0] = 0;
    if (address->family == AF_INET)
        inet_ntop(AF_INET, address->bytes, text, (socklen_t)room);
    else if (is_mapped(address))
        inet_ntop(AF_INET, address->bytes + 12, text, (socklen_t)room);
    else if (address->family == AF_INET6)
        inet_ntop(AF_INET6, address->bytes, text, (socklen_t)room);
    return strlen(text);
}

static int client(syncless_request *request, syncless_bytes *found) {
    struct call *call = call_of_request(request);
    char *text = arena_alloc(&call->thread->arena, INET6_ADDRSTRLEN);
    if (!text)
        return 0;
    found->size = show_address(&call->conn->address, text, INET6_ADDRSTRLEN);
    found->data = text;
    return 1;
}

static int published(const syncless_request *request, const char *name, size_t size, syncless_bytes *found) {
    return find_published(name, size, &found->data, &found->size);
}

static void *alloc(syncless_request *request, size_t size) {
    return arena_alloc(&call_of_request(request)->thread->arena, size);
}

/* -- building ------------------------------------------------------------------------------------------- */

/* Whether the server itself sends the field. */
static int is_ours(const char *name, size_t size) {
    int known = head_known(name, size);
    return is_hop_by_hop(known) || known == K_CONTENT_LENGTH || known == K_DATE || known == K_SERVER;
}

static int add_field(syncless_response *response, const char *name, size_t name_size, const char *value,
                     size_t value_size) {
    static const char option[] = "Connection: Upgrade\r\n";
    struct block *fields = &call_of(response)->fields;
    /* RFC 9110, 15.5.22 and 7.8 */
    int upgrades = response->status == 426 && name_size == 7 && same_letters(name, "upgrade", 7);
    if (!head_is_token(name, name_size) || !head_is_value(value, value_size) ||
        (is_ours(name, name_size) && !upgrades) ||
        block_reserve(fields, name_size + value_size + 4 + sizeof option))
        return -1;
    if (upgrades)
        block_append(fields, option, sizeof option - 1);
    block_append(fields, name, name_size);
    block_append(fields, ": ", 2);
    block_append(fields, value, value_size);
    return block_append(fields, "\r\n", 2);
}

/* The body is what has been appended. */
static int take_body(struct call *call) {
    call->response.body.data = call->body.data;
    call->response.body.size = call->body.size;
    call->response.permanent = 0;
    return 0;
}

static int append(syncless_response *response, const char *data, size_t size) {
    struct call *call = call_of(response);
    return block_append(&call->body, data, size) ? -1 : take_body(call);
}

static int append_format(syncless_response *response, const char *format, va_list values) {
    struct call *call = call_of(response);
    va_list again;
    int size;
    va_copy(again, values);
    size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (size < 0 || block_reserve(&call->body, (size_t)size + 1))
        return -1;
    vsnprintf(call->body.data + call->body.size, (size_t)size + 1, format, values);
    call->body.size += size;
    return take_body(call);
}

static int send_file(syncless_response *response, int fd, int64_t offset, int64_t size, int close_it) {
    struct call *call = call_of(response);
    if (fd < 0 || offset < 0 || size < 0 || call->file >= 0) {
        if (fd >= 0 && close_it)
            close(fd);
        return -1;
    }
    call->file = fd;
    call->file_offset = offset;
    call->file_size = size;
    call->close_file = close_it != 0;
    return 0;
}

static int respond(syncless_response *response, int status, const char *type, size_t type_size,
                   const char *body, size_t body_size, int permanent) {
    response->status = status;
    response->permanent = permanent;
    response->type.data = type;
    response->type.size = type_size;
    response->body.data = body;
    response->body.size = body_size;
    return SYNCLESS_DONE;
}

static int begin(syncless_response *response, syncless_step step, void *state, void (*release)(void *)) {
    struct call *call = call_of(response);
    if (!step || call->step || call->conn->steps) {
        if (release)
            release(state);
        return -1;
    }
    call->step = step;
    call->state = state;
    call->release = release;
    return 0;
}

const struct syncless_calls CALLS = {
    SYNCLESS_NATIVE_ABI, sizeof(struct syncless_calls), parameter, field, field_at, client, published, alloc,
    add_field, append, append_format, send_file, respond, begin,
};
