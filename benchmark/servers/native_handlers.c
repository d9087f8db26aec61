/* The handlers of run_native.py. */

#include <syncless/native.h>

SYNCLESS_LIBRARY

int hello(syncless_request *request, syncless_response *response) {
    (void)request;
    return syncless_respond_static(response, 200, "text/plain", "Hello, World!", 13);
}

/* fibonacci(10^6) in 32 bits. */
int fib(syncless_request *request, syncless_response *response) {
    uint32_t a = 0, b = 1, t;
    unsigned i;
    (void)request;
    for (i = 0; i < 1000000; i++) {
        t = a + b;
        a = b;
        b = t;
    }
    response->type.data = "text/plain";
    response->type.size = 10;
    return syncless_append_format(response, "%u", a);
}
