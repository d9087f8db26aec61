/* Why a request is refused: the table of both servers. A row is a reason: its name, the status of the answer,
   and the words in it. Scanners return minus a reason. One more is one row. */

#ifndef SYNCLESS_REFUSALS_H
#define SYNCLESS_REFUSALS_H

#define REFUSALS(ROW) \
    ROW(MALFORMED, 400, "The request does not follow HTTP/1.1.") \
    ROW(CHUNK_SIZE, 400, "The line before a chunk of the body does not follow HTTP/1.1.") \
    ROW(CHUNK_END, 400, "A chunk of the body is not as long as it says.") \
    ROW(TRAILERS, 400, "The trailers of the request do not follow HTTP/1.1.") \
    ROW(PLAIN_HTTP, 400, "This port serves HTTPS, but the request is plain HTTP.") \
    ROW(TOO_SLOW, 408, "The request took too long to arrive.") \
    ROW(BODY_TOO_LARGE, 413, "The request body is larger than this server accepts.") \
    ROW(CHUNK_LINE_TOO_LONG, 413, "The line before a chunk of the body is longer than this server accepts.") \
    ROW(LINE_TOO_LONG, 414, "The request line is longer than this server accepts.") \
    ROW(EXPECTATION, 417, "This server supports only the expectation 100-continue.") \
    ROW(WEBSOCKET_VERSION, 426, "This server does not support this version of the WebSocket protocol.") \
    ROW(HEAD_TOO_LARGE, 431, "The request has more or larger header fields than this server accepts.") \
    ROW(TRAILERS_TOO_LARGE, 431, "The trailers of the request are larger than this server accepts.") \
    ROW(FAILED, 500, "The application failed. The reason is in the server's log.") \
    ROW(CONNECT, 501, "This server is no proxy: it does not support the method CONNECT.") \
    ROW(CODING, 501, "This server supports no transfer coding but chunked.") \
    ROW(PROTOCOL, 501, "This server does not support the protocol that the request asks for.") \
    ROW(BUSY, 503, "The server cannot answer this request now.") \
    ROW(TOO_MANY, 503, "Too many requests are in progress.") \
    ROW(STOPPING, 503, "The server is stopping.") \
    ROW(VERSION, 505, "This server supports only HTTP/1.0 and HTTP/1.1.")

enum refusal {
    R_NONE = 15, /* the numbers below are for other outcomes of callers */
#define ROW(name, status, words) R_##name,
    REFUSALS(ROW)
#undef ROW
    R_END
};

struct refusal_row {
    const char *name;
    int status;
    const char *words;
};

/* From R_NONE + 1 on. */
static const struct refusal_row refusal_rows[] = {
#define ROW(name, status, words) {#name, status, words},
    REFUSALS(ROW)
#undef ROW
};

static inline int refusal_status(int reason) {
    return refusal_rows[reason - R_NONE - 1].status;
}

#endif
