/* lwan's hello: lwan PORT THREADS. Linked with its library; see _lwan() in __init__.py. */

#include <stdio.h>
#include <stdlib.h>

#include "lwan.h"

static enum lwan_http_status hello(struct lwan_request *request, struct lwan_response *response, void *data) {
    static const char body[] = "Hello, World!";
    (void)request, (void)data;
    response->mime_type = "text/plain";
    lwan_strbuf_set_static(response->buffer, body, sizeof body - 1);
    return HTTP_OK;
}

int main(int argc, char **argv) {
    static const struct lwan_url_map map[] = {{.prefix = "/", .handler = hello}, {.prefix = NULL}};
    struct lwan_config config = *lwan_get_default_config();
    struct lwan server;
    char listener[64];
    snprintf(listener, sizeof listener, "127.0.0.1:%s", argc > 1 ? argv[1] : "8000");
    config.listener = listener;
    config.n_threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    config.quiet = 1;
    lwan_init_with_config(&server, &config);
    lwan_set_url_map(&server, map);
    lwan_main_loop(&server);
    lwan_shutdown(&server);
    return 0;
}
