/* The threads that answer native handlers' requests, and what they share. The manual of the C files here.

   One thread has one epoll, and each of its connections lives in it alone, so nothing on the way of a
   request takes a lock: counts are each thread's own, the routes never change, and what passes between
   threads goes through queues without locks. Nothing here knows Python. threads.pyx is the border: it makes
   a server, takes the messages that threads send to Python, and gives connections back.

       thread.c        a thread: its turn, what others send to it
       accepting.c     its new connections
       connection.c    the life of a connection
       closing.c       its end
       incoming.c      the next request of a connection: head, route
       bodies.c        its body, as a whole or in pieces
       calling.c       the call of its handler, and what follows from the result
       steps.c         handlers that go on: bodies in pieces, responses in pieces over time
       answer.c        the head and the body of a response, refusals
       sending.c       what is sent, at once or later
       handlers.c      the functions that a handler calls
       trust.c         which fields of a request it sees
       routes.c        which handler answers
       deadlines.c     lists of connections by the start of their times
       messages.c      queues between threads; what the logs are told
       publish.c       bytes that Python code replaces while handlers read them */

#ifndef SYNCLESS_SERVER_H
#define SYNCLESS_SERVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/types.h>

#include "syncless/native.h"
#include "body.h"
#include "memory.h"
#include "datarate.h"
#include "refusals.h"
#include "reply.h"
#include "routes.h"

/* Messages that threads send one another, and queues of them: any thread may send, one takes. */

struct address {                /* of a client */
    uint8_t bytes[16];          /* IPv4: the first four */
    uint16_t port;
    uint8_t family;             /* AF_INET, AF_INET6, or anything else for none */
    uint8_t listener;           /* index of the socket that it was accepted on */
};

/* A connection, a block of the access log, a notice, a line for the error log, or the wish that Python closes
   an idle connection for a client that waits. */
enum { CONNECTION_MESSAGE, LOG_MESSAGE, NOTICE_MESSAGE, FAULT_MESSAGE, EVICT_MESSAGE };

struct message {
    struct message *next;
    int kind;
    int fd;                     /* of a connection; the error of a notice */
    struct address address;
    size_t size;
    char data[];
};

struct inbox {
    _Atomic(struct message *) first;
    int event;                  /* eventfd: Python reads it; a thread has it in its epoll, see wake() */
    struct thread *of;          /* NULL: Python's */
};

/* A record of the access log as it passes from a thread to Python. */
struct record {
    uint32_t size;              /* of the head that follows */
    uint32_t fields_size;       /* of the fields of the response behind that */
    uint16_t status;
    uint8_t refused, closes;
    struct address address;
    int64_t body, ns;           /* bytes; since the request began */
};

/* NULL where there is no memory. */
struct message *message_new(int kind, size_t size);
void wake(struct inbox *it);
void send_message(struct inbox *to, struct message *message);
struct message *take_messages(struct inbox *from);
void drop_messages(struct inbox *from);

enum { BODY_MOST = 1 << 20 };   /* bytes of a body, framing included; larger ones are Python's */

/* Deadlines: one list for each, in the order in which their times began. PAUSE_TIME is a heap, in the order
   in which steps are to go on. */
enum { HEAD_TIME, IDLE_TIME, BODY_TIME, WRITE_TIME, LINGER_TIME, PAUSE_TIME, TIMES, NO_TIME = TIMES };

struct link {
    struct link *next, *previous;
};

enum { READING, LINGERING, CLOSED };            /* phases of a connection; see connection.c */

struct tail {                   /* sent behind `out` */
    const char *data;           /* memory that is never freed */
    size_t size;
    int64_t offset, left;       /* of a file */
    int fd;                     /* -1: none */
    char close_it;
};

struct conn {                   /* there may be many idle ones */
    struct link link;           /* in the list of its deadline; first, so that both have one address */
    int64_t since;              /* ns: when that time began, or when the pause ends */
    struct conn *ready_next;    /* in the thread's list of those that have a turn of their own, or are dead */
    struct block in, out;       /* received and not used; to be sent */
    uint32_t in_start, out_sent;
    uint32_t need;              /* bytes that `in` must have before it is looked at again */
    uint32_t sent_before;       /* requests, up to 2: whether it has been used before */
    struct tail *tail;
    struct chunks *chunks;      /* a chunked body that has not come as a whole */
    struct steps *steps;        /* its request is answered in steps */
    struct data_rate *rate;     /* while the client makes us wait */
    int64_t body_since;         /* ns: when waiting for a body began */
    int64_t lingered;           /* bytes that were thrown away */
    struct memory *memory;      /* its last head */
    struct address address;
    int fd;
    uint32_t place;             /* in the heap of pauses */
    uint8_t phase, time, checks;
    uint8_t readable;           /* recv() may have something */
    uint8_t peer_shutdown;      /* the client sends no more; recv() is worth trying until it says so */
    uint8_t ended;              /* recv() has said so */
    uint8_t armed;              /* known to epoll */
    uint8_t stalled;            /* the client takes no more now */
    uint8_t closing;            /* to be closed once all is sent */
    uint8_t queued;             /* in the list of ready ones */
    uint8_t continued;          /* has been told to send its body */
    uint8_t progressed;         /* it has sent since the last check */
};

struct counts {                 /* of one thread; read by others at any time */
    _Atomic int64_t requests[CODES], refused[CODES], latency[BUCKETS], latency_ns;
    _Atomic int64_t connections, accepted, received, sent, dropped, handed;
    _Atomic int64_t reading, lingering, held;
};

struct call {                   /* a request and its response while the handler runs; see handlers.c */
    syncless_request request;
    syncless_response response;
    struct thread *thread;
    struct conn *conn;
    const char *data;           /* the head */
    const struct head *head;
    const struct match *match;
    struct block fields;        /* of the response, ready to be sent */
    struct block body;          /* of appended pieces */
    int file;                   /* -1: none */
    char close_file;
    char unread;                /* a part of the request's body has not been read */
    int64_t file_offset, file_size;
    size_t size;                /* bytes of the head, or of the whole request */
    int64_t began;              /* ns; 0: it is not measured */
    syncless_step step;         /* it begins to answer in steps */
    void *state;
    void (*release)(void *);
};

struct steps {                  /* a request that is answered in steps; its head is kept behind the struct */
    syncless_step step;
    void *state;
    void (*release)(void *);
    struct framing body;        /* of the request */
    struct match match;
    struct head *head;
    const char *data;           /* the head, of `size` bytes */
    size_t size;
    syncless_bytes path;
    int64_t began;              /* ns */
    int64_t resume_at;          /* ns: when a step that waits goes on */
    int64_t left_at;            /* ns: when it ceased to wait for the body; 0: it waits, or never did */
    int64_t length;             /* of the response, -1: not told */
    int64_t sent;               /* bytes of its body up to now */
    struct block fields;        /* of the response, for the log */
    int status;
    char wants;                 /* SYNCLESS_READ, WRITE or WAIT */
    char told_end;              /* a step knows of the end of the body */
    char begun, framing, closes;        /* the response; see reply.h */
};

struct last_head {              /* a response head that is likely to be sent again */
    int status, closes, minor;
    size_t type_size, body_size, size;
    int64_t dated;              /* seconds since 1970: its Date */
    char type[64];
    char data[512];
};

struct memory {                 /* a head that a connection has sent, with the offsets found in it */
    size_t size;
    struct match match;
    const char *bytes;          /* behind the fields */
    struct head head;           /* with as many fields as it has: last */
};

struct thread {
    struct server *server;
    int index, epoll;
    pthread_t id;
    int64_t now;                /* ns, of this turn */
    char *scratch;              /* RECEIVE bytes */
    struct block out;           /* answers to the connection whose turn it is */
    struct arena arena;
    struct call call;
    struct link lists[PAUSE_TIME];
    struct conn **pauses;       /* a binary heap */
    uint32_t paused, pause_room;
    struct conn *ready, *ready_last, *dead;
    struct head head;           /* of the request whose turn it is */
    struct match match;
    int memories;               /* heads that are remembered */
    struct inbox inbox;
    struct reader *reader;      /* publish.c */
    struct last_head last;
    struct block records;       /* of the access log */
    int64_t records_since;
    char dates[REPLY_DATES];
    size_t dates_size;
    int64_t dated;              /* seconds since 1970 */
    int64_t retry_at;           /* ns: when to accept again; 0: accepts */
    int64_t complain_at;
    int64_t fault_at;           /* ns: when a failure is logged again */
    int64_t faults;             /* that were not logged since the last one */
    int listening;              /* it accepts */
    int closed_idle;            /* orders that have been carried out, see server.closings */
    struct counts counts;
    /* for the watchdog */
    _Atomic int64_t busy_since; /* ns: since when it has been in a turn; 0: it is not */
    _Atomic int64_t calls;      /* of handlers, those that have begun */
    _Atomic int64_t calls_before;       /* when the turn began */
    int64_t calls_seen, seen_at;        /* the watchdog's own: at its last look, and ns when they grew */
    _Atomic(const struct route *) busy_with;
    _Atomic int ended, drained; /* its loop is over; it accepts no more */
    int lost;                   /* its descriptors are the program's now; see thread.c */
};

/* In the data of an event, beside a pointer or the index of a listening socket: no other epoll has it. */
#define MARK (0x5CE5ULL << 48)
#define MARKED(value) (MARK | (uint64_t)(value))

typedef _Atomic uint8_t owned_t;

struct text {
    const char *data;
    size_t size;
};

struct network {
    uint8_t size, mask[16], base[16];   /* 4 or 16 bytes of an address, and which of them count */
};

enum { SHOWN, SHOWN_IF_TRUSTED, HIDDEN };

struct trust {
    uint8_t known[256];                 /* which fields handlers see, by the index in head_known_names */
    struct text forwarding;             /* all others that begin so are hidden */
    int everybody, unix_sockets;
    struct network *networks;           /* of trusted peers */
    int network_count;
};

struct server {
    struct routes *routes;
    struct trust trust;
    struct limits limits;
    struct text reasons[CODES];         /* "HTTP/1.1 200 OK\r\n" */
    struct text refusals[R_END];        /* the body of an answer of the server's own, by its reason */
    int *listeners;
    int listener_count;
    struct thread **threads;
    int thread_count;
    struct inbox python;
    _Atomic int64_t log_held;           /* bytes of the access log that Python has not taken yet */
    int logs;                           /* there is an access log */
    int logs_fields;                    /* which shows fields of responses */
    int64_t bounds[BUCKETS];               /* of the buckets of the latency; see http/listener/counters.pxi */
    int counts_time;                    /* requests are measured */
    _Atomic int stopping;               /* every response closes its connection */
    _Atomic int draining;               /* accept what waits, then no more */
    _Atomic int closings;               /* idle connections are closed, once for each number */
    _Atomic int abort;                  /* all connections are closed */
    _Atomic int quit;
    _Atomic int eviction_wanted;        /* an EVICT_MESSAGE is on its way */
    _Atomic int64_t connections;        /* those of the threads, Python's, and messages with one: see
                                           Limits.connections, without which nobody takes Python's off */
    owned_t *owned;                     /* by descriptor: whether a thread has it */
    int owned_size;
};

/* Only its thread adds to a count, so nobody waits for anybody. */
static inline void bump(_Atomic int64_t *count, int64_t by) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* thread.c */
int64_t clock_ns(void);
struct thread *thread_new(struct server *server, int index);
int thread_start(struct thread *t);
void thread_turn(struct thread *t, int64_t timeout_ns);
int64_t thread_busy_ns(struct thread *t);
void thread_free(struct thread *t);
void own(struct server *server, int fd, int is_ours);

/* accepting.c */
void listen_to(struct thread *t, int on);
int accept_some(struct thread *t, int index);
struct thread *thread_for(struct server *server, int index);
void send_connection(struct thread *to, struct message *message);

/* connection.c */
struct conn *conn_open(struct thread *t, int fd, const struct address *address);
void conn_live(struct thread *t, struct conn *c);
void conn_event(struct thread *t, struct conn *c, unsigned events);
void conn_push(struct thread *t, struct conn *c);
void conn_hand_over(struct thread *t, struct conn *c, const char *data, size_t size);
int conn_hold(struct thread *t, struct conn *c, const char *data, size_t size);
ssize_t conn_receive(struct thread *t, struct conn *c, char *into, size_t room);
int conn_has_input(const struct conn *c);
void conn_drop_input(struct thread *t, struct conn *c);
void conn_arm(struct thread *t, struct conn *c);
void conn_release(struct thread *t, struct conn *c);

/* closing.c */
void conn_close(struct thread *t, struct conn *c, int reset);
void conn_close_when_sent(struct thread *t, struct conn *c);
int conn_close_idle(struct thread *t, struct conn *c);
void conn_read_away(struct thread *t, struct conn *c);
void conn_expired(struct thread *t, struct conn *c);
int conn_evict_one(struct thread *t);
void conn_shed(struct thread *t);

/* incoming.c: the requests in the bytes */
enum { MORE = 0, PYTHON = -1, ENOUGH = -2, GONE = -3 };
long serve_request(struct thread *t, struct conn *c, const char *data, size_t size);
void forget_head(struct thread *t, struct conn *c);

/* bodies.c */
/* > 0: the bytes of the request, whose *body is complete. MORE, PYTHON, or minus a reason. */
long read_body(struct thread *t, struct conn *c, const char *data, size_t size, const struct head *head,
               size_t used, syncless_bytes *body);
void wait_for_body(struct thread *t, struct conn *c, const struct head *head, size_t size, size_t used);
void drop_chunks(struct conn *c);

/* calling.c */
long run_handler(struct thread *t, struct conn *c, const struct match *match, const char *data, size_t used,
                 size_t head_size, const struct head *head, syncless_bytes path, syncless_bytes body);
long run_step(struct thread *t, struct conn *c, syncless_bytes piece);
const char *fault_of(const struct call *call, char *words, size_t room);

/* steps.c */
struct steps *begin_steps(struct conn *c, struct call *call, size_t head_size);
const char *take_step(struct thread *t, struct conn *c, struct call *call, int result, long *outcome,
                      char *words, size_t room);
long feed_steps(struct thread *t, struct conn *c, const char *data, size_t size);
long go_on(struct thread *t, struct conn *c);
int is_due(struct thread *t, const struct conn *c);
void steps_wait(struct thread *t, struct conn *c);
void drop_steps(struct thread *t, struct conn *c);

/* Whether the next bytes that come are for a step. */
static inline int reads_body(const struct conn *c) {
    return c->steps && c->steps->wants == SYNCLESS_READ && !c->steps->body.ended;
}

/* answer.c */
int is_head(const struct call *call);
/* FAILED where there is no memory. `length` < 0: none is told. */
int put_head(struct thread *t, struct call *call, int status, const struct reply *reply, int closes);
int answer(struct thread *t, struct conn *c, struct call *call, int closes);
enum { NOT_MEASURED = -1, NO_REQUEST = -2 };    /* instead of ns */
void refuse(struct thread *t, struct conn *c, int reason, int64_t ns, const char *data, size_t size);
void count_request(struct thread *t, int status, int64_t ns);

/* sending.c */
enum { FAILED = -1, STALLED = 0, SENT = 1 };
int send_out(struct thread *t, struct conn *c);
int send_large(struct thread *t, struct conn *c, const char *body, size_t size, int permanent);
int send_part(struct thread *t, struct conn *c, struct call *call);
int send_more(struct thread *t, struct conn *c);
int has_unsent(const struct conn *c);
int too_slow(struct thread *t, struct conn *c);
int may_wait(struct thread *t, struct conn *c);
void drop_unsent(struct thread *t, struct conn *c);

/* trust.c */
int is_shown(const struct trust *trust, const struct address *address, int known, const char *name,
             size_t size);

/* handlers.c */
extern const struct syncless_calls CALLS;
int is_mapped(const struct address *address);   /* IPv4 inside IPv6 */
size_t show_address(const struct address *address, char *text, size_t room);

/* deadlines.c */
void start_time(struct thread *t, struct conn *c, int time);
void start_pause(struct thread *t, struct conn *c, int64_t until);
void stop_time(struct thread *t, struct conn *c);
struct conn *first_of(struct thread *t, int time);
struct conn *next_of(struct thread *t, struct conn *c, int time);
int64_t expire(struct thread *t);
int64_t time_length(struct server *server, int time);

/* messages.c: the logs */
void record(struct thread *t, struct conn *c, int status, int refused, int64_t body, int64_t ns,
            int closes, const char *data, size_t size, const struct block *fields);
/* Appends the fields that a handler has given to its response, if the log shows some. Without memory,
   none. */
void tell_fields(struct thread *t, const struct call *call, struct block *into);
void send_records(struct thread *t);
/* Sends records that have been held back for long enough. ns until the next ones are, or -1. */
int64_t records_wait(struct thread *t);
void tell_fault(struct thread *t, const struct route *route, const char *words);

/* publish.c */
struct reader;

enum { READERS = 256 };                 /* that a process may have, as threads of native handlers */

/* NULL and EAGAIN where there are more. */
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
