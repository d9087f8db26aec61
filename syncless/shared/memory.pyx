"""Region: memory that the processes of a server share, for Python; and Waker, which tells a loop of messages.

region.h is the manual of the memory. Keys are bytes, whose hash() is the same in all processes that share a
region: they come from one by fork. Nothing of Python runs between enter() and region_leave(), so a process
holds the mutex for microseconds. One that waits for it lets other tasklets run, and gives up after
PATIENCE_NS: its holder may have been stopped (SIGSTOP). messages.py, values.py and locks.py have the API.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EBADF, ECONNREFUSED, EINTR, ENOENT, ENOTSOCK, ETIMEDOUT, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from posix.unistd cimport close, getpid

from syncless._core.clock cimport monotonic_ns
from syncless._core.current cimport may_park
from syncless._core.loop cimport Loop, Watcher
from syncless._core.poll.poller cimport READ
from syncless._core.scheduler cimport Scheduler
from syncless._core.threadloop cimport get_loop

from syncless._core.calls.threads import run_in_thread
from syncless.shared.errors import SharedError, StoreFull, Unavailable

cdef extern from "region.h" nogil:
    enum:
        TOPIC_BYTES
        MOST_PLACES
        CELL_BYTES
        REGION_FULL
        REGION_OVERFLOW
        COUNTER_ENTRY
        VALUE_ENTRY
        RATE_ENTRY
        LOCK_ENTRY
        AMOUNT_ENTRY
        RECORD_NONE
        RECORD_THERE
        RECORD_GONE
    struct place:
        uint32_t pid
        uint32_t name_bytes
        uint64_t started
        uint64_t asleep
        char* name
    struct entry:
        uint32_t older, key_bytes, data_bytes
        uint8_t format
        int64_t number
    struct region:
        size_t bytes
        uint64_t repaired, entries, evicted, expired, published, overwritten
        uint32_t used
        place* place
    struct key:
        const void* bytes
        uint32_t size
        uint64_t hash
        int kind
    struct data:
        const void* bytes
        uint32_t size
        uint8_t format
        int64_t expires, number
    struct record:
        uint32_t size, data_bytes, pid
        uint64_t number
        uint8_t topic_bytes, format
    region* region_make(size_t value_bytes, size_t ring_bytes)
    void region_unmake(region* r)
    int region_enter(region* r, int64_t ns)
    void region_leave(region* r)
    uint32_t values_find(region* r, const key* key, int64_t now)
    int values_put(region* r, const key* key, const data* data, int64_t now)
    int values_add(region* r, const key* key, int64_t n, int64_t* sum)
    int64_t values_take(region* r, const key* key, int64_t n, int64_t most, int64_t each, int64_t now)
    uint32_t values_amount(region* r, const key* key)
    void values_remove(region* r, uint32_t entry)
    void values_read(region* r, uint32_t entry, void* to)
    int values_equal(region* r, uint32_t entry, const data* data)
    entry* values_entry(region* r, uint32_t cell)
    uint32_t amounts_newest(const region* r)
    void amounts_key(region* r, uint32_t amount, void* to)
    void amount_add(entry* amount, double n)
    void amount_set(entry* amount, double value)
    double amount_get(const entry* amount)
    uint64_t ring_put(region* r, record* record, const void* topic, const void* data)
    int ring_look(const region* r, uint64_t at, record* record, char* topic)
    int ring_read(const region* r, uint64_t at, const record* record, void* to)
    uint64_t ring_head(const region* r)
    uint64_t ring_tail(const region* r)
    int place_take(region* r, uint32_t pid, uint64_t started, const char* name, uint32_t name_bytes)
    void place_free(region* r, int number, uint32_t pid, uint64_t started)
    void place_sleeps(region* r, int number, uint64_t turn)
    void place_wakes(region* r, int number)
    int place_next_sleeper(const region* r, int start, place* found)
    void place_told(region* r, int number, uint64_t turn)

cdef extern from * nogil:
    """
    #include <stddef.h>
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/un.h>
    #include <unistd.h>

    static int wakers_socket(void) {
        return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }

    /* A name that the system chooses; its length, or -1. */
    static int wakers_name(int fd, char *name, size_t room) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t size = sizeof address.sun_family;
        if (bind(fd, (struct sockaddr *)&address, size))
            return -1;
        size = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &size))
            return -1;
        size -= offsetof(struct sockaddr_un, sun_path);
        if (size > room)
            return -1;
        memcpy(name, address.sun_path, size);
        return (int)size;
    }

    static int wakers_wake(int fd, const char *name, size_t size) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t all = offsetof(struct sockaddr_un, sun_path) + size;
        memcpy(address.sun_path, name, size);
        return sendto(fd, "", 0, MSG_NOSIGNAL, (struct sockaddr *)&address, all) < 0 ? -1 : 0;
    }

    static int wakers_drain(int fd) {
        char byte;
        return recv(fd, &byte, 1, 0) < 0 ? -1 : 0;
    }
    """
    int wakers_socket()
    int wakers_name(int fd, char* name, size_t room)
    int wakers_wake(int fd, const char* name, size_t size)
    int wakers_drain(int fd)

cdef enum:
    QUICK_NS = 200000           # for which the loop itself waits for the mutex
    STACK_BYTES = 4096          # a value of so many bytes is read without memory of its own
    DRAINED = 32                # datagrams read in one turn: anybody on this machine can send them
    BATCH = 256                 # messages that a loop looks at in one turn
    NAME_BYTES = 20
cdef int64_t PATIENCE_NS = 2_000_000_000


cdef inline key key_of(bytes name, int kind):
    cdef key k
    k.bytes = <const char*> name
    k.size = <uint32_t> len(name)
    k.hash = <uint64_t> hash(name)
    k.kind = kind
    return k


cdef inline data data_of(bytes value, int format, int64_t expires, int64_t number):
    cdef data d
    d.bytes = <const char*> value
    d.size = <uint32_t> len(value)
    d.format = <uint8_t> format
    d.expires = expires
    d.number = number
    return d


cdef class Region:
    """Region(value_bytes, ring_bytes)\n--\n\nMade before the fork, it is the same in all processes. Raises
    OSError."""
    cdef region* it
    cdef readonly size_t ring_bytes, value_bytes
    cdef int sender             # a socket without a name, by which loops are woken; -1: not made yet

    def __cinit__(self):
        self.sender = -1

    def __init__(self, size_t value_bytes, size_t ring_bytes):
        self.it = region_make(value_bytes, ring_bytes)
        if self.it == NULL:
            raise OSError(errno, f"cannot get shared memory: {os.strerror(errno)}")
        self.ring_bytes, self.value_bytes = ring_bytes, value_bytes

    def __dealloc__(self):
        if self.it != NULL:
            region_unmake(self.it)
        if self.sender >= 0:
            close(self.sender)

    # -- the mutex -------------------------------------------------------------------------------------------

    cdef int enter(self) except -1:
        """Get the mutex. Raise Unavailable."""
        cdef int error = region_enter(self.it, 0)
        return 0 if error == 0 else self.enter_later()

    cdef int enter_later(self) except -1:
        cdef int64_t until = monotonic_ns() + PATIENCE_NS
        cdef int error = region_enter(self.it, QUICK_NS)
        while error == ETIMEDOUT and monotonic_ns() < until:
            if may_park():
                run_in_thread(self.await_turn)
                error = region_enter(self.it, QUICK_NS)
            else:
                with nogil:
                    error = region_enter(self.it, PATIENCE_NS)
        if error == ETIMEDOUT:
            raise Unavailable(
                f"the shared memory has been held for {PATIENCE_NS / 1e9:g} s by a process that is stopped")
        if error:
            raise Unavailable(f"the shared memory cannot be used: {os.strerror(error)}")
        return 0

    def await_turn(self) -> None:
        """Return when the mutex is free, or PATIENCE_NS later. Called in an OS thread."""
        cdef int error
        with nogil:
            error = region_enter(self.it, PATIENCE_NS)
            if error == 0:
                region_leave(self.it)

    # -- counters --------------------------------------------------------------------------------------------

    def add(self, bytes name not None, int64_t n) -> int:
        """Add to a counter and return its new value. Raise StoreFull, OverflowError or Unavailable."""
        cdef key k = key_of(name, COUNTER_ENTRY)
        cdef int64_t total = 0
        cdef int status
        self.enter()
        status = values_add(self.it, &k, n, &total)
        region_leave(self.it)
        if status:
            if status == REGION_OVERFLOW:
                raise OverflowError("a counter is an integer of 64 bits")
            raise full()
        return total

    def number(self, bytes name not None, bint remove=False) -> int:
        """Return a counter's value; 0 if there is none. With `remove`, also remove it."""
        cdef key k = key_of(name, COUNTER_ENTRY)
        cdef int64_t number = 0
        cdef uint32_t cell
        self.enter()
        cell = values_find(self.it, &k, 0)
        if cell:
            number = values_entry(self.it, cell).number
            if remove:
                values_remove(self.it, cell)
        region_leave(self.it)
        return number

    # -- values ----------------------------------------------------------------------------------------------

    def get(self, bytes name not None, bint remove=False) -> tuple | None:
        """Return (format, bytes) of a value, or None. With `remove`, also remove it."""
        cdef char[STACK_BYTES] stack
        cdef char* to = stack
        cdef char* grown = NULL
        cdef size_t room = STACK_BYTES, size = 0
        cdef key k = key_of(name, VALUE_ENTRY)
        cdef int64_t now = monotonic_ns()
        cdef uint32_t cell
        cdef int format = 0
        cdef bint done = False
        try:
            while not done:
                if size > room:
                    free(grown)
                    grown = <char*> malloc(size)
                    if grown == NULL:
                        raise MemoryError
                    to, room = grown, size
                self.enter()
                cell = values_find(self.it, &k, now)
                size = values_entry(self.it, cell).data_bytes if cell else 0
                done = size <= room
                if cell and done:
                    values_read(self.it, cell, to)
                    format = values_entry(self.it, cell).format
                    if remove:
                        values_remove(self.it, cell)
                region_leave(self.it)
            return (format, to[:size]) if cell else None
        finally:
            free(grown)

    def put(self, bytes name not None, int format, bytes value not None, int64_t expires_in) -> None:
        """Set a value for that many ns; 0: without end. Raise StoreFull or Unavailable."""
        cdef key k = key_of(name, VALUE_ENTRY)
        cdef int64_t now = monotonic_ns()
        cdef data d = data_of(value, format, now + expires_in if expires_in else 0, 0)
        cdef int status
        self.enter()
        status = values_put(self.it, &k, &d, now)
        region_leave(self.it)
        if status:
            raise full()

    def put_if_missing(self, bytes name not None, int format, bytes value not None,
                       int64_t expires_in) -> bool:
        """Do as put() if there is no value. Return whether it was put."""
        cdef key k = key_of(name, VALUE_ENTRY)
        cdef int64_t now = monotonic_ns()
        cdef data d = data_of(value, format, now + expires_in if expires_in else 0, 0)
        cdef bint missing
        cdef int status = 0
        self.enter()
        missing = not values_find(self.it, &k, now)
        if missing:
            status = values_put(self.it, &k, &d, now)
        region_leave(self.it)
        if status:
            raise full()
        return missing

    def put_if_equal(self, bytes name not None, int old_format, bytes old not None,
                     int format, bytes value not None, int64_t expires_in) -> bool:
        """Do as put() if the present value is `old`. Return whether it was put."""
        cdef key k = key_of(name, VALUE_ENTRY)
        cdef int64_t now = monotonic_ns()
        cdef data d = data_of(value, format, now + expires_in if expires_in else 0, 0)
        cdef data expected = data_of(old, old_format, 0, 0)
        cdef uint32_t cell
        cdef bint equal
        cdef int status = 0
        self.enter()
        cell = values_find(self.it, &k, now)
        equal = cell and values_equal(self.it, cell, &expected)
        if equal:
            status = values_put(self.it, &k, &d, now)
        region_leave(self.it)
        if status:
            raise full()
        return equal

    def take(self, bytes name not None, int64_t n, int64_t most, int64_t each) -> int:
        """Take n turns of a rate, see values_take(). Return 0, or the ns until they are free. Raise
        StoreFull."""
        cdef key k = key_of(name, RATE_ENTRY)
        cdef int64_t left
        self.enter()
        left = values_take(self.it, &k, n, most, each, monotonic_ns())
        region_leave(self.it)
        if left < 0:
            raise full()
        return left

    def amounts(self) -> list:
        """Return (name, value, mark) of each Amount, in the order in which they were made. Never waits."""
        cdef uint32_t cell = amounts_newest(self.it)
        cdef entry* e
        cdef bytes name
        cdef list found = []
        while cell:
            e = values_entry(self.it, cell)
            name = PyBytes_FromStringAndSize(NULL, e.key_bytes)
            amounts_key(self.it, cell, PyBytes_AS_STRING(name))
            found.append((name, amount_get(e), e.format))
            cell = e.older
        found.reverse()
        return found

    # -- locks -----------------------------------------------------------------------------------------------

    def lock(self, bytes name not None, bytes owner not None, bytes dead=None) -> bytes | None:
        """Take a lock that is free or belongs to the `dead` owner, and return None; otherwise return its
        present owner, who announces the release."""
        cdef char[STACK_BYTES] holder
        cdef key k = key_of(name, LOCK_ENTRY)
        cdef data mine = data_of(owner, 0, 0, 0)
        cdef data old = data_of(dead if dead is not None else b"", 0, 0, 0)
        cdef uint32_t cell
        cdef size_t size = 0
        cdef int status = 0
        self.enter()
        cell = values_find(self.it, &k, 0)
        if not cell or (old.size and values_equal(self.it, cell, &old)):
            mine.number = values_entry(self.it, cell).number if cell else 0     # others wait, too
            status = values_put(self.it, &k, &mine, 0)
        else:
            values_entry(self.it, cell).number = 1
            size = values_entry(self.it, cell).data_bytes
            values_read(self.it, cell, holder)
        region_leave(self.it)
        if status:
            raise full()
        return holder[:size] if size else None

    def unlock(self, bytes name not None, bytes owner not None) -> int:
        """Free the lock. Return 1 if somebody waits for it, else 0; -1 if it is not this owner's."""
        cdef key k = key_of(name, LOCK_ENTRY)
        cdef data mine = data_of(owner, 0, 0, 0)
        cdef uint32_t cell
        cdef int waited = -1
        self.enter()
        cell = values_find(self.it, &k, 0)
        if cell and values_equal(self.it, cell, &mine):
            waited = values_entry(self.it, cell).number != 0
            values_remove(self.it, cell)
        region_leave(self.it)
        return waited

    def is_locked(self, bytes name not None) -> bool:
        cdef key k = key_of(name, LOCK_ENTRY)
        cdef bint locked
        self.enter()
        locked = values_find(self.it, &k, 0) != 0
        region_leave(self.it)
        return locked

    # -- messages --------------------------------------------------------------------------------------------

    def publish(self, bytes topic not None, int format, bytes value not None) -> int:
        """Return the number of the message. The caller has checked its size. Raise Unavailable."""
        cdef record r
        cdef uint64_t number
        cdef const char* name = topic
        cdef const char* content = value
        r.topic_bytes = <uint8_t> len(topic)
        r.format = <uint8_t> format
        r.data_bytes = <uint32_t> len(value)
        r.pid = <uint32_t> getpid()
        self.enter()
        number = ring_put(self.it, &r, name, content)
        region_leave(self.it)
        self.wake_loops()
        return number

    cdef int wake_loops(self) except -1:
        """Wake all loops that sleep. A wake-up that cannot be sent is attempted again at the next message."""
        cdef place found
        cdef int number = place_next_sleeper(self.it, 0, &found)
        while number >= 0:
            if self.sender < 0:
                self.sender = wakers_socket()
            if wakers_wake(self.sender, found.name, found.name_bytes) == 0:
                place_told(self.it, number, found.asleep)
            elif errno == ECONNREFUSED or errno == ENOENT:      # its process has ended
                self.free_place(number, found.pid, found.started)
            elif errno == EBADF or errno == ENOTSOCK:           # a daemon has closed everything
                self.sender = -1
            number = place_next_sleeper(self.it, number + 1, &found)
        return 0

    def read(self, uint64_t at) -> tuple | None:
        """Return (number, topic, format, data) of the message at this place of the ring; None if it has been
        overwritten."""
        cdef char[TOPIC_BYTES + 1] topic
        cdef record r
        cdef char* to
        if ring_look(self.it, at, &r, topic) != RECORD_THERE:
            return None
        to = <char*> malloc(r.data_bytes + 1)
        if to == NULL:
            raise MemoryError
        try:
            if ring_read(self.it, at, &r, to) != RECORD_THERE:
                return None
            return r.number, topic[:r.topic_bytes], r.format, to[:r.data_bytes]
        finally:
            free(to)

    def head(self) -> int:
        """Return the place of the next message in the ring."""
        return ring_head(self.it)

    def tail(self) -> int:
        """Return the place of the oldest message in the ring."""
        return ring_tail(self.it)

    # -- places of loops -------------------------------------------------------------------------------------

    def owners_of_places(self) -> list:
        """Return (place, pid, start) of each place that is taken."""
        return [
            (i, self.it.place[i].pid, self.it.place[i].started)
            for i in range(MOST_PLACES)
            if self.it.place[i].pid
        ]

    def free_place(self, int number, uint32_t pid, uint64_t started) -> None:
        """Free a place, unless it has another owner by now."""
        self.enter()
        place_free(self.it, number, pid, started)
        region_leave(self.it)

    def figures(self) -> dict:
        """Return counts, and sizes in bytes."""
        return {
            "messages": self.it.published,
            "overwritten": self.it.overwritten,
            "ring_bytes": self.ring_bytes,
            "entries": self.it.entries,
            "used_bytes": self.it.used * CELL_BYTES,
            "value_bytes": self.value_bytes,
            "evicted": self.it.evicted,
            "expired": self.it.expired,
            "repaired": self.it.repaired,
        }


cdef class Amount:
    """Amount(region, name)\n--\n\nA float that processes share, 0.0 at first, and a byte for the caller, the
    `mark`. It is never removed, so nothing here waits. Raises StoreFull, Unavailable."""
    cdef Region region          # which keeps the memory
    cdef entry* it

    def __cinit__(self, Region region not None, bytes name not None):
        self.bind(region, name)

    def bind(self, Region region not None, bytes name not None) -> None:
        """Become the amount of another name. Raise StoreFull, Unavailable."""
        cdef key k = key_of(name, AMOUNT_ENTRY)
        cdef uint32_t cell
        region.enter()
        cell = values_amount(region.it, &k)
        region_leave(region.it)
        if not cell:
            raise full()
        self.region, self.it = region, values_entry(region.it, cell)

    def inc(self, double amount) -> None:
        amount_add(self.it, amount)

    def set(self, double value, timestamp=None) -> None:
        amount_set(self.it, value)

    def get(self) -> float:
        return amount_get(self.it)

    @property
    def mark(self) -> int:
        return self.it.format

    @mark.setter
    def mark(self, uint8_t mark):
        self.it.format = mark


cdef object full():
    return StoreFull(
        "the counters, metrics and locks need all of the memory for values: raise shared_value_bytes")


cdef class Waker(Watcher):
    """Waker(region, pid, started, deliver)\n--\n\nA datagram in its socket wakes this thread's loop. The loop
    then calls deliver([(topic, place in the ring), ...], number of lost messages). That must not wait. Raises
    SharedError, OSError."""
    cdef Region region
    cdef Loop loop
    cdef int fd, place          # -1: closed
    cdef uint32_t pid
    cdef uint64_t started
    cdef uint64_t at            # the place in the ring of the next message
    cdef uint64_t number        # of the last message
    cdef uint64_t sleep         # see ring.c
    cdef object deliver

    def __cinit__(self):
        self.fd = self.place = -1

    def __init__(self, Region region not None, uint32_t pid, uint64_t started, deliver):
        cdef char[NAME_BYTES] name
        cdef int size
        self.region, self.loop, self.deliver = region, get_loop(), deliver
        self.pid, self.started = pid, started
        self.fd = wakers_socket()
        size = wakers_name(self.fd, name, NAME_BYTES) if self.fd >= 0 else -1
        if size < 0:
            raise OSError(errno, f"cannot make a socket to be woken by: {os.strerror(errno)}")
        region.enter()
        self.place = place_take(region.it, pid, started, name, size)
        self.at, self.number = ring_head(region.it), region.it.published
        region_leave(region.it)
        if self.place < 0:
            raise SharedError(f"more than {MOST_PLACES} threads of all processes subscribe to messages")
        self.loop.fds.forget(self.fd)
        self.loop.fds.watch(self.fd, self)
        self.look(self.loop)

    def __dealloc__(self):
        if self.fd >= 0:
            close(self.fd)

    cdef int on_ready(self, Loop loop, int bits) except -1:
        cdef int _
        if self.fd < 0:
            return 0
        place_wakes(self.region.it, self.place)
        for _ in range(DRAINED):
            if wakers_drain(self.fd) < 0 and errno != EINTR:
                break
        loop.fds.arm(self.fd, READ)
        return self.look(loop)

    cdef int turn(self, Scheduler loop) except -1:
        return self.look(<Loop> loop)

    cdef int look(self, Loop loop) except -1:
        """Deliver a batch of messages; sleep if there are no more."""
        cdef char[TOPIC_BYTES + 1] topic
        cdef record r
        cdef int _, status
        cdef uint64_t lost = 0
        cdef list found = []
        cdef region* it = self.region.it
        if self.fd < 0:
            return 0
        for _ in range(BATCH):
            status = ring_look(it, self.at, &r, topic)
            if status == RECORD_THERE:
                lost += r.number - self.number - 1
                self.number = r.number
                found.append((topic[:r.topic_bytes], self.at))
                self.at += r.size
            elif status == RECORD_GONE:
                self.at = ring_tail(it)
            elif self.is_asleep(it):
                break
        else:
            loop.push(self)                 # others have their turn first
        if found:
            self.deliver(found, lost)
        return 0

    cdef bint is_asleep(self, region* it) noexcept:
        """Announce the sleep. Return False if a message has come at that moment."""
        self.sleep = max(self.sleep + 1, <uint64_t> monotonic_ns())
        place_sleeps(it, self.place, self.sleep)
        if ring_head(it) == self.at:
            return True
        place_wakes(it, self.place)
        return False

    cdef int loop_ended(self, Loop loop) except -1:
        self.close()
        return 0

    def close(self) -> None:
        """Deliver nothing any more. May be called in any thread."""
        cdef int fd = self.fd
        if fd >= 0:
            self.fd = -1
            self.loop.fds.forget(fd)
            close(fd)
            self.region.free_place(self.place, self.pid, self.started)

    def leave_to_parent(self) -> None:
        """Leave the place to the parent. Called in a child."""
        cdef int fd = self.fd
        if fd >= 0:
            self.fd = -1
            close(fd)
