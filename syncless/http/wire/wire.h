/* The limits of both servers, and the numbers that neither chooses for itself.

   http/wire/ has the rules of HTTP/1.1, for the tasklets of a server and for its threads of native handlers.
   It is C without Python, sockets, memory or a clock: bytes, counts and times are arguments, so each file can
   be tested and fuzzed by itself.

       head.h      request heads, chunk lines and trailers are scanned
       names.h     names of fields, and which byte may stand where
       host.c      the host that a request names
       body.h      the states of a request body
       refusals.h  why a request is refused
       reply.h     how a response is framed, and the fields that say so
       datarate.h  which clients are too slow */

#ifndef SYNCLESS_WIRE_H
#define SYNCLESS_WIRE_H

#include <stdint.h>

#include "head.h"

enum {
    CODES = 600,           /* a status is below */
    BUCKETS = 17,          /* of the latency, the last for all that take longer */
    RECEIVE = 65536,       /* bytes that are received at a time */
    LITTLE = 2048,         /* bytes of room that the first part of a request gets */
    MEMORY_MOST = 2048,         /* bytes: a larger request head is not remembered */
    COPIED = 16384,        /* bytes: a body up to this size is copied behind its head */
    OUT_HIGH = 65536,      /* bytes to be sent beyond which no more is put there */
    WASTE = 32768,         /* bytes that a lingering connection throws away at a time ... */
    ROUNDS = 16,           /* ... and how often, before others get a turn */
    ACCEPT_BATCH = 64,         /* connections that are accepted before others get a turn */
    LAST_BATCHES = 1024,   /* of these at the end of a listener: more than any backlog has */
    ASKED = 64,            /* connections that are asked for their place at a time */
    LOG_HELD = 1 << 23,    /* bytes of the access log at most: the disk or the reader stands still */
};

#define RETRY_NS 50000000LL            /* until it accepts again, where there was no room */
#define COMPLAIN_NS 60000000000LL      /* between two notices of that */
#define JUST_COME_NS 1000000000LL      /* in which a new connection is not yet taken for an idle one */

/* Room for another connection is made by closing the one that has lingered for longest, else the one that has
   been idle for longest, else the one that has been for longest in the middle of a head. */

/* The limits of limits.py, by their names: bytes, numbers, times in ns, bytes per second. Unbounded ones are
   the largest number. `python -m scripts.docs.options` writes them. */
struct limits {
    int64_t request_line, header_count, head_bytes, chunk_line, trailer_bytes, body_bytes, remembered;
    int64_t recorded_waits, drain_bytes, streams, pipelined, connections, client_connections;
    int64_t requests, queued, buffered_bytes, websocket_bytes, linger_bytes, linger_connections;
    int64_t event_bytes, shared_value_bytes, shared_ring_bytes, shared_message_bytes, backlog;
    int64_t head_ns, greeting_ns, idle_ns, body_ns, body_total_ns, body_grace_ns, request_ns;
    int64_t cancel_ns, queue_ns, retry_ns, write_ns, write_grace_ns, ping_ns, linger_ns;
    int64_t linger_idle_ns, worker_requests, worker_requests_jitter, worker_ns, worker_memory_bytes;
    int64_t worker_memory_percent, worker_stuck_ns, worker_boot_ns, held_ns, shared_ns, stop_delay_ns;
    int64_t stop_ns, stop_notice_ns, stop_idle_ns;
    double body_rate, write_rate;
    int64_t body_check_ns, write_check_ns, linger_check_ns;     /* how often a slow client is checked */
    struct head_limits head;
};

#endif
