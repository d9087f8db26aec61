/* Native handlers of the tests. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <syncless/native.h>

SYNCLESS_LIBRARY

int hello(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_respond_static(response, 200, "text/plain", "Hello, World!", 13);
}

/* The body that was sent. */
int echo(syncless_request *request, syncless_response *response) {
    return syncless_respond(response, 200, "application/octet-stream", request->body.data, request->body.size);
}

int pass(syncless_request *request, syncless_response *response) {
    (void)request, (void)response;
    return SYNCLESS_PASS;
}

int fails(syncless_request *request, syncless_response *response) {
    (void)request, (void)response;
    return -1;
}

static int put(syncless_response *response, const char *name, syncless_bytes value) {
    return syncless_append_format(response, "%s=%.*s\n", name, (int)value.size, value.data);
}

/* Shows the parts of a request that a handler can read. */
int show(syncless_request *request, syncless_response *response) {
    static const char *const names[] = {"id", "path", NULL};
    syncless_bytes name, value;
    int i;
    response->type.data = "text/plain";
    response->type.size = 10;
    put(response, "method", request->method);
    put(response, "path", request->path);
    put(response, "query", request->query);
    put(response, "target", request->target);
    put(response, "body", request->body);
    for (i = 0; names[i]; i++)
        if (syncless_parameter(request, names[i], &value))
            syncless_append_format(response, "{%s}=%.*s\n", names[i], (int)value.size, value.data);
    if (syncless_field(request, "x-asked", &value))
        put(response, "asked", value);
    for (i = 0; syncless_field_at(request, i, &name, &value); i++)
        syncless_append_format(response, "%.*s: %.*s\n", (int)name.size, name.data, (int)value.size, value.data);
    if (syncless_client(request, &value))
        put(response, "client", value);
    return SYNCLESS_DONE;
}

/* The status, the fields and the size that the query asks for: "204", "200&n=100000". */
int build(syncless_request *request, syncless_response *response) {
    char query[64] = {0};
    size_t size, i;
    char *body, *number;
    memcpy(query, request->query.data, request->query.size < 63 ? request->query.size : 63);
    response->status = atoi(query);
    number = strstr(query, "n=");
    size = number ? strtoul(number + 2, NULL, 10) : 0;
    body = syncless_alloc(request, size);
    if (size && !body)
        return -1;
    for (i = 0; i < size; i++)
        body[i] = 'a' + i % 26;
    response->body.data = body;
    response->body.size = size;
    if (syncless_add_field(response, "X-Made", "yes"))
        return -1;
    /* refused: they would break the head, or are the server's own */
    if (syncless_add_field(response, "X-Bad", "a\r\nb") != -1 || syncless_add_field(response, "Date", "x") != -1 ||
        syncless_add_field(response, "content-length", "3") != -1 || syncless_add_field(response, "a b", "c") != -1)
        return -1;
    return SYNCLESS_DONE;
}

static char large[4000000];

int forever(syncless_request *request, syncless_response *response) {
    size_t i;
    (void)request;
    for (i = 0; large[0] == 0 && i < sizeof large; i++)
        large[sizeof large - 1 - i] = 'x';
    return syncless_respond_static(response, 200, "text/plain", large, sizeof large);
}

/* The file that the context names. */
int file(syncless_request *request, syncless_response *response) {
    struct stat about;
    int fd = open((const char *)request->context, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    fstat(fd, &about);
    return syncless_send_file(response, fd, 0, about.st_size, 1);
}

/* Answers with the text that Python has published as "news". */
int news(syncless_request *request, syncless_response *response) {
    syncless_bytes found;
    if (!syncless_published(request, "news", &found))
        return syncless_respond(response, 404, "text/plain", "none", 4);
    return syncless_respond(response, 200, "text/plain", found.data, found.size);
}

/* Blocks until a byte comes through the pipe whose descriptor is the context. */
int block(syncless_request *request, syncless_response *response) {
    char byte;
    while (read((int)(intptr_t)request->context, &byte, 1) < 0)
        ;
    return syncless_respond(response, 200, "text/plain", "went on", 7);
}
