/* Native handlers of the tests. */

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <syncless/native.h>

SYNCLESS_LIBRARY

int hello(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_respond_static(response, 200, "text/plain", "Hello, World!", 13);
}

/* Ten bytes without fields, with the status and the type that the query asks for: "200text/html". */
int alike(syncless_request *request, syncless_response *response) {
    char status[4] = {0};
    memcpy(status, request->query.data, 3);
    syncless_respond(response, atoi(status), NULL, "0123456789", 10);
    response->type.data = request->query.data + 3;
    response->type.size = request->query.size - 3;
    return SYNCLESS_DONE;
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

int underscore(syncless_request *request, syncless_response *response) {
    syncless_bytes value;
    if (!syncless_field(request, "x_asked", &value))
        return syncless_respond(response, 200, "text/plain", "none", 4);
    return syncless_respond(response, 200, "text/plain", value.data, value.size);
}

/* The number of fields with these names that it finds. */
int hidden(syncless_request *request, syncless_response *response) {
    syncless_bytes value;
    int found = syncless_field(request, "proxy", &value) + syncless_field(request, "Proxy", &value) +
                syncless_field(request, "x_under", &value);
    return syncless_append_format(response, "%d", found);
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
    if (syncless_field(request, "host", &value))
        put(response, "host", value);
    for (i = 0; syncless_field_at(request, i, &name, &value); i++)
        syncless_append_format(response, "%.*s: %.*s\n", (int)name.size, name.data, (int)value.size, value.data);
    if (syncless_client(request, &value))
        put(response, "client", value);
    return SYNCLESS_DONE;
}

/* The value of the field that the query names. */
int looks(syncless_request *request, syncless_response *response) {
    char name[64] = {0};
    syncless_bytes value = {"-", 1};
    memcpy(name, request->query.data, request->query.size < 63 ? request->query.size : 63);
    syncless_field(request, name, &value);
    return syncless_append(response, value.data, value.size);
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
    if (syncless_add_field(response, "X-Made", "yes") || syncless_add_field(response, "Trailer", "X-Sum"))
        return -1;
    /* refused: they would break the head, or are the server's own */
    if (syncless_add_field(response, "X-Bad", "a\r\nb") != -1 || syncless_add_field(response, "Date", "x") != -1 ||
        syncless_add_field(response, "content-length", "3") != -1 || syncless_add_field(response, "a b", "c") != -1)
        return -1;
    if (syncless_add_field(response, "Upgrade", "websocket") != (response->status == 426 ? 0 : -1))
        return -1;
    return SYNCLESS_DONE;
}

static char large[4000000];

static const char *filled(void) {
    size_t i;
    for (i = 0; large[0] == 0 && i < sizeof large; i++)
        large[sizeof large - 1 - i] = 'x';
    return large;
}

int forever(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_respond_static(response, 200, "text/plain", filled(), sizeof large);
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

/* Which process answers. */
int process(syncless_request *request, syncless_response *response) {
    char pid[20];
    (void)request;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (syncless_add_field(response, "X-Pid", pid))
        return -1;
    return syncless_respond_static(response, 200, "text/plain", "native", 6);
}

/* Blocks until a byte comes through the pipe whose descriptor is the context. */
int block(syncless_request *request, syncless_response *response) {
    char byte;
    while (read((int)(intptr_t)request->context, &byte, 1) < 0)
        ;
    return syncless_respond(response, 200, "text/plain", "went on", 7);
}

/* Takes three seconds, in which its thread does nothing else. */
int slow(syncless_request *request, syncless_response *response) {
    (void)request;
    poll(NULL, 0, 3000);
    return syncless_respond(response, 200, "text/plain", "late", 4);
}

/* -- in steps ------------------------------------------------------------------------------------------- */

struct sum {
    unsigned long long bytes, sum, pieces;
    size_t largest;
};

static int released; /* how many states have been */

int count_released(syncless_request *request, syncless_response *response) {
    (void)request;
    response->type.data = "text/plain", response->type.size = 10;
    return syncless_append_format(response, "%d", released);
}

static void release(void *state) {
    free(state);
    __sync_fetch_and_add(&released, 1);
}

static int sum_step(syncless_request *request, syncless_response *response, void *state) {
    struct sum *sum = state;
    size_t i;
    if (!request->body.size) {
        response->type.data = "text/plain", response->type.size = 10;
        return syncless_append_format(response, "%.*s %llu %llu", (int)request->path.size, request->path.data,
                                      sum->bytes, sum->sum);
    }
    for (i = 0; i < request->body.size; i++)
        sum->sum += (unsigned char)request->body.data[i];
    sum->bytes += request->body.size;
    return SYNCLESS_READ;
}

/* Path, number and sum of the bytes of a body of any size; registered for pieces. */
int sum(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_begin(response, sum_step, calloc(1, sizeof(struct sum)), release) ? -1 : SYNCLESS_READ;
}

static int mirror_step(syncless_request *request, syncless_response *response, void *state) {
    (void)state;
    if (!request->body.size)
        return SYNCLESS_DONE;
    response->type.data = "text/plain", response->type.size = 10;
    return syncless_append(response, request->body.data, request->body.size) ? -1 : SYNCLESS_READ;
}

/* Sends each piece of the body back when it comes. */
int mirror(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_begin(response, mirror_step, calloc(1, 1), release) ? -1 : SYNCLESS_READ;
}

/* The same behind a piece of its own. */
int greet(syncless_request *request, syncless_response *response) {
    (void)request;
    if (syncless_begin(response, mirror_step, calloc(1, 1), release) || syncless_append(response, "begun ", 6))
        return -1;
    return SYNCLESS_READ;
}

struct steps {
    int left, failing;
    int64_t wait;
    size_t size;
    int64_t length;
};

static int steps_step(syncless_request *request, syncless_response *response, void *state) {
    struct steps *steps = state;
    size_t i;
    (void)request;
    if (!steps->left)
        return steps->failing ? -1 : SYNCLESS_DONE;
    for (i = 0; i < steps->size; i++)
        if (syncless_append(response, &"0123456789"[steps->left % 10], 1))
            return -1;
    syncless_set_length(response, steps->length);
    if (syncless_add_field(response, "X-Steps", "yes"))
        return -1;
    steps->left--;
    return steps->wait ? syncless_wait(response, steps->wait) : SYNCLESS_WRITE;
}

/* The query says how many pieces of how many bytes: "3&size=10&wait=5&length=30&failing=1" */
int steps(syncless_request *request, syncless_response *response) {
    struct steps *made = calloc(1, sizeof *made);
    char query[100] = {0};
    memcpy(query, request->query.data, request->query.size < 99 ? request->query.size : 99);
    made->left = atoi(query);
    made->length = -1;
#define NUMBER(name) if (strstr(query, #name "=")) made->name = atoi(strstr(query, #name "=") + sizeof #name)
    NUMBER(size);
    NUMBER(wait);
    NUMBER(length);
    NUMBER(failing);
    if (syncless_begin(response, steps_step, made, release))
        return -1;
    return steps_step(request, response, made);
}

static int last_step(syncless_request *request, syncless_response *response, void *state) {
    (void)request, (void)state;
    return syncless_append(response, filled(), sizeof large) ? -1 : SYNCLESS_DONE;
}

static void read_for_client(void *state) {
    static char data[100000];
    recv((int)(intptr_t)state, data, sizeof data, MSG_DONTWAIT);
}

/* The last piece is larger than a socket takes. When the steps are over, the client whose descriptor is the
   context reads a part. */
int last(syncless_request *request, syncless_response *response) {
    if (syncless_begin(response, last_step, request->context, read_for_client) || syncless_append(response, "a", 1))
        return -1;
    return SYNCLESS_WRITE;
}

/* Does what the query says wrongly. */
int wrong(syncless_request *request, syncless_response *response) {
    switch (request->query.size ? request->query.data[0] : 0) {
    case 'n': /* nothing */
        return SYNCLESS_DONE;
    case 's': /* a status */
        return syncless_respond(response, 99, "text/plain", "a", 1);
    case 't': /* a type */
        return syncless_respond(response, 200, "text/plain\r\nX: y", "a", 1);
    case 'l': /* a large body */
        return syncless_respond(response, 200, "text/plain", "a", (size_t)1 << 31);
    case 'f': /* a file and more */
        if (syncless_append(response, "a", 1))
            return -1;
        return syncless_send_file(response, open("/dev/null", O_RDONLY | O_CLOEXEC), 0, 0, 1);
    case 'c': /* it crashes */
        return *(volatile int *)(request->query.size - 1);
    case 'b': /* no begin */
        return SYNCLESS_WRITE;
    case 'r': /* begun and failed */
        syncless_begin(response, steps_step, calloc(1, sizeof(struct steps)), release);
        return 77;
    default:
        return -1;
    }
}
