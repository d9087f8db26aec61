/* The floor on io_uring: as floor.c, with accepts and receptions that go on by themselves (multishot), slots of
   the ring instead of descriptors, buffers that the kernel takes from a ring of them, and one system call for
   each turn of the loop, which sends all answers and waits. Needs Linux 6.6.

   floor_uring PORT [defer]: with `defer`, TCP_DEFER_ACCEPT. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loopback.h"

#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16) /* Linux 6.6 */
#endif

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n"
                             "Server: syncless\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\nHello, World!";
enum { SIZE = sizeof answer - 1, MOST = 512, ENTRIES = 4096, BUFFERS = 4096, ROOM = 4096 };
enum { ACCEPT, RECV, SEND, CLOSE };
static char answers[SIZE * MOST], *memory;
static struct io_uring_buf_ring *buffers;
static struct io_uring_sqe *entries;
static struct io_uring_cqe *completions;
static unsigned *sq_head, *sq_tail, made;
static int ring, registered;

static int enter(unsigned wait) {
    unsigned count = made;
    made = 0;
    return syscall(SYS_io_uring_enter, registered, count, wait,
                   IORING_ENTER_GETEVENTS | IORING_ENTER_REGISTERED_RING, NULL, 0);
}

static void *mapped(size_t size, int fd, off_t offset) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE,
                fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE, fd, offset);
}

static struct io_uring_sqe *entry(int operation, int fd, int what) {
    struct io_uring_sqe *sqe;
    unsigned at = *sq_tail;
    if (at - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) == ENTRIES)
        enter(0);
    sqe = &entries[at & (ENTRIES - 1)];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = operation;
    sqe->fd = fd;
    sqe->user_data = (uint64_t)what << 32 | (uint32_t)fd;
    __atomic_store_n(sq_tail, at + 1, __ATOMIC_RELEASE);
    made++;
    return sqe;
}

static void give_back(unsigned id) {
    struct io_uring_buf *buf = &buffers->bufs[buffers->tail & (BUFFERS - 1)];
    buf->addr = (uint64_t)(memory + (size_t)id * ROOM);
    buf->len = ROOM;
    buf->bid = id;
    __atomic_store_n(&buffers->tail, buffers->tail + 1, __ATOMIC_RELEASE);
}

static void receive(int slot, int goes_on) {
    struct io_uring_sqe *sqe = entry(IORING_OP_RECV, slot, RECV);
    sqe->ioprio = goes_on ? IORING_RECV_MULTISHOT : 0;
    sqe->flags = IOSQE_BUFFER_SELECT | IOSQE_FIXED_FILE;
}

static void close_it(int slot) {
    struct io_uring_sqe *sqe = entry(IORING_OP_CLOSE, 0, CLOSE);
    sqe->file_index = slot + 1;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
}

static void accept_all(int listener) {
    struct io_uring_sqe *sqe = entry(IORING_OP_ACCEPT, listener, ACCEPT);
    sqe->ioprio = IORING_ACCEPT_MULTISHOT;
    sqe->file_index = IORING_FILE_INDEX_ALLOC;
}

static int serve(int slot, const struct io_uring_cqe *cqe) {
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    char *data = memory + (size_t)id * ROOM, *at = data, *end = data + cqe->res;
    int heads = 0, last;
    struct io_uring_sqe *sqe;
    for (; (at = memmem(at, end - at, "\r\n\r\n", 4)) && heads < MOST; at += 4)
        heads++;
    last = memmem(data, cqe->res < 64 ? cqe->res : 64, "HTTP/1.0", 8) != NULL;
    give_back(id);
    sqe = entry(IORING_OP_SEND, slot, SEND);
    sqe->addr = (uint64_t)answers;
    sqe->len = heads * SIZE;
    sqe->msg_flags = MSG_NOSIGNAL;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS | IOSQE_FIXED_FILE | (last ? IOSQE_IO_LINK : 0);
    if (last)
        close_it(slot);
    return last;
}

int main(int argc, char **argv) {
    int listener = listening(argv[1], 0, argc > 2 && !strcmp(argv[2], "defer"));
    struct io_uring_params setup = {.cq_entries = 4 * ENTRIES};
    struct io_uring_buf_reg reg = {.ring_entries = BUFFERS};
    struct io_uring_rsrc_register slots = {.nr = 16384, .flags = IORING_RSRC_REGISTER_SPARSE};
    struct io_uring_rsrc_update own = {.offset = -1U};
    unsigned *head, *tail, mask, i;
    char *rings;
    for (i = 0; i < MOST; i++)
        memcpy(answers + i * SIZE, answer, SIZE);
    setup.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE
                  | IORING_SETUP_NO_SQARRAY;
    if ((ring = syscall(SYS_io_uring_setup, ENTRIES, &setup)) < 0)
        return perror("io_uring_setup"), 1;
    rings = mapped(setup.cq_off.cqes + setup.cq_entries * sizeof *completions, ring, IORING_OFF_SQ_RING);
    entries = mapped(setup.sq_entries * sizeof *entries, ring, IORING_OFF_SQES);
    sq_head = (unsigned *)(rings + setup.sq_off.head);
    sq_tail = (unsigned *)(rings + setup.sq_off.tail);
    head = (unsigned *)(rings + setup.cq_off.head);
    tail = (unsigned *)(rings + setup.cq_off.tail);
    mask = *(unsigned *)(rings + setup.cq_off.ring_mask);
    completions = (struct io_uring_cqe *)(rings + setup.cq_off.cqes);
    memory = mapped((size_t)BUFFERS * ROOM, -1, 0);
    buffers = mapped(BUFFERS * sizeof(struct io_uring_buf), -1, 0);
    reg.ring_addr = (uint64_t)buffers;
    own.data = ring;
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES2, &slots, sizeof slots) < 0
        || syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &reg, 1) < 0
        || syscall(SYS_io_uring_register, ring, IORING_REGISTER_RING_FDS, &own, 1) < 0)
        return perror("io_uring_register"), 1;
    registered = own.offset;
    for (i = 0; i < BUFFERS; i++)
        give_back(i);
    accept_all(listener);
    for (;;) {
        unsigned at = *head, last;
        if (enter(1) < 0 && errno != EINTR && errno != EBUSY)
            return perror("io_uring_enter"), 1;
        last = __atomic_load_n(tail, __ATOMIC_ACQUIRE);
        for (; at != last; at++) {
            struct io_uring_cqe *cqe = &completions[at & mask];
            int fd = (int)(uint32_t)cqe->user_data;
            switch (cqe->user_data >> 32) {
            case ACCEPT:
                if (cqe->res >= 0)
                    receive(cqe->res, 0); /* alone, so that HTTP/1.0's can be closed behind the answer */
                if (!(cqe->flags & IORING_CQE_F_MORE))
                    accept_all(listener);
                break;
            case RECV:
                if (cqe->res > 0) {
                    if (!serve(fd, cqe) && !(cqe->flags & IORING_CQE_F_MORE))
                        receive(fd, 1);
                } else if (cqe->res == -ENOBUFS)
                    receive(fd, 1);
                else
                    close_it(fd);
                break;
            }
            __atomic_store_n(head, at + 1, __ATOMIC_RELEASE);
        }
    }
}
