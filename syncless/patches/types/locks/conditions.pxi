"""Condition, Event and Queue of the standard library, by shorter ways than through Python (locks.pyx)."""

cdef object condition_type = class_of(threading, "Condition")
cdef object event_type = class_of(threading, "Event")
cdef object fifo_type = class_of(queue, "Queue")
cdef object lifo_type = class_of(queue, "LifoQueue")
cdef object original_enter = condition_type.__enter__
cdef object original_exit = condition_type.__exit__
cdef object original_condition_wait = condition_type.wait
cdef object original_notify = condition_type.notify
cdef object original_notify_all = condition_type.notify_all
cdef object original_set = event_type.set
cdef object original_clear = event_type.clear
cdef object original_event_wait = event_type.wait
cdef object original_queue_put = fifo_type.put
cdef object original_queue_get = fifo_type.get
cdef bint shuts_down = hasattr(fifo_type, "shutdown")       # since Python 3.13


# -- waiters: a deque of Locks, each held until its waiter's turn ---------------------------------


cdef int notify(object waiters, Py_ssize_t n) except -1:
    while n > 0 and waiters:
        waiter = waiters.popleft()
        if not is_lock(waiter):
            waiter.release()
        elif not lock_is_held(waiter):
            continue                            # an interrupted notify() of the library's has come that far
        else:
            give_lock(waiter)
        n -= 1
    return 0


cdef bint wait_turn(object waiters, object waiter, int64_t deadline) except -1:
    """Wait as `waiter`, which is among the waiters already, until it is notified (True) or the deadline has
    passed (False)."""
    try:
        if deadline != NEVER and deadline <= monotonic_ns():
            take_turns()
        elif take_lock(waiter, deadline, True):
            return True
    except BaseException:
        if not take_out(waiters, waiter):
            notify(waiters, 1)                  # killed after its turn had come: the next waiter gets it
        raise
    return not take_out(waiters, waiter)


cdef bint take_out(object waiters, object waiter) except -1:
    """Return whether it was still there."""
    try:
        waiters.remove(waiter)
    except ValueError:
        return False
    return True


cdef bint is_time(object timeout) noexcept:
    """None, or a number of seconds; the library refuses everything else."""
    return timeout is None or ((type(timeout) is int or type(timeout) is float) and 0 <= timeout <= longest)


# -- Condition -----------------------------------------------------------------------------------


cdef object waiters_of(object condition):
    """Its waiters; None if it is a subclass or its queue is unusual."""
    if type(condition) is condition_type:
        waiters = condition._waiters
        if type(waiters) is deque:
            return waiters
    return None


def condition_enter(self):
    """Acquire the lock."""
    if type(self) is condition_type:
        take_turns_at_times()
        lock = self._lock
        if is_lock(lock):
            return take_lock(lock, NEVER)
        if is_rlock(lock):
            return take_rlock(lock, NEVER)
    return original_enter(self)


def condition_exit(self, *args):
    """Release the lock."""
    if type(self) is condition_type:
        lock = self._lock
        if is_lock(lock):
            give_lock(lock)
            return
        if is_rlock(lock):
            rlock_release(lock)
            return
    return original_exit(self, *args)


cdef int must_own(object lock, str what) except -1:
    if not (lock_is_held(lock) if is_lock(lock) else owns_rlock(lock)):
        raise RuntimeError(f"cannot {what} on un-acquired lock")
    return 0


def condition_wait(self, timeout=None):
    """Wait until notified, for at most `timeout` seconds; the lock is released meanwhile. Return whether it
    was notified."""
    cdef bint notified
    cdef int64_t deadline
    lock, waiters = self._lock, waiters_of(self)
    if waiters is None or not (is_lock(lock) or is_rlock(lock)) or not is_time(timeout):
        return original_condition_wait(self, timeout)
    must_own(lock, "wait")
    waiter, deadline, state = new_held_lock(), deadline_after(timeout), None
    waiters.append(waiter)
    if is_lock(lock):
        give_lock(lock)
    else:
        state = rlock_release_save(lock)
    raised = None
    try:
        notified = wait_turn(waiters, waiter, deadline)
    except BaseException as error:
        notified, raised = False, error
    uninterrupted(_take_again, lock, state)
    if raised is None:
        raised = next_thrown()
        if raised is not None and notified:
            notify(waiters, 1)                  # this waiter raises, so another one gets the notification
    if raised is not None:
        raise raised
    return notified


def _take_again(lock, state):
    """The caller will release the lock, and must not release another's."""
    if is_lock(lock):
        take_lock(lock, NEVER)
    else:
        rlock_acquire_restore(lock, state)


def condition_notify(self, n=1):
    """Wake up to n waiters. Raise RuntimeError if the caller does not hold the lock."""
    lock, waiters = self._lock, waiters_of(self)
    if waiters is None or not (is_lock(lock) or is_rlock(lock)) or type(n) is not int:
        return original_notify(self, n)
    must_own(lock, "notify")
    notify(waiters, min(n, len(waiters)))


def condition_notify_all(self):
    """Wake all waiters. Raise RuntimeError if the caller does not hold the lock."""
    lock, waiters = self._lock, waiters_of(self)
    if waiters is None or not (is_lock(lock) or is_rlock(lock)):
        return original_notify_all(self)
    must_own(lock, "notify")
    notify(waiters, len(waiters))


cdef bint is_free(object lock) noexcept:
    """Return whether it is a Lock that is not held."""
    return is_lock(lock) and not lock_is_held(lock)


# -- Event ---------------------------------------------------------------------------------------


cdef object free_waiters_of(object event):
    """Its waiters, if it is as usual and its lock is free; else None."""
    if type(event) is event_type:
        condition = event._cond
        waiters = waiters_of(condition)
        if waiters is not None and is_free(condition._lock):
            return waiters
    return None


def event_is_set(self):
    """Return whether the internal flag is true; a loop that asks lets others run."""
    take_turns_at_times()
    return self._flag


def event_set(self):
    """Set the internal flag to true and wake all waiters."""
    take_turns_at_times()
    waiters = free_waiters_of(self)
    if waiters is None:
        return original_set(self)
    self._flag = True
    notify(waiters, len(waiters))


def event_clear(self):
    """Reset the internal flag to false."""
    take_turns_at_times()
    if free_waiters_of(self) is None:
        return original_clear(self)
    self._flag = False


def event_wait(self, timeout=None):
    """Wait until the flag is true, for at most `timeout` seconds. Return whether it is."""
    cdef int64_t deadline
    take_turns_at_times()
    if type(self) is event_type and self._flag is True:
        return True
    if is_time(timeout):
        waiter, deadline = new_held_lock(), deadline_after(timeout)
        waiters = free_waiters_of(self)
        if waiters is not None and self._flag is False:
            waiters.append(waiter)
            return wait_turn(waiters, waiter, deadline)
    return original_event_wait(self, timeout)


# -- Queue and LifoQueue -------------------------------------------------------------------------


cdef object items_of(object self):
    """Its items, if it is open and its lock is free; else None."""
    if (shuts_down and self.is_shutdown) or not is_free(self.mutex):
        return None
    items = self.queue
    return items if (type(items) is deque if type(self) is fifo_type else type(items) is list) else None


cdef bint is_simple(object self, object block, object timeout) noexcept:
    """Return whether it is one of these two classes, and the arguments only say how long to wait."""
    return ((type(self) is fifo_type or type(self) is lifo_type)
        and (block is False or (block is True and is_time(timeout))))


cdef object rest(object timeout, int64_t deadline):
    return None if timeout is None else max(0.0, (deadline - monotonic_ns()) / 1e9)


# other results of try_put() and try_get(): not possible yet; an unusual queue, left to the library
cdef object NOT_YET = object()
cdef object UNUSUAL = object()


cdef object try_put(object self, object item):
    items, room, tasks = items_of(self), self.maxsize, self.unfinished_tasks
    getters = waiters_of(self.not_empty)
    if items is None or getters is None or type(room) is not int or type(tasks) is not int:
        return UNUSUAL
    if 0 < room <= len(items):
        return NOT_YET
    items.append(item)
    self.unfinished_tasks = tasks + 1
    notify(getters, 1)
    return None


cdef object try_get(object self):
    items, putters = items_of(self), waiters_of(self.not_full)
    if items is None or putters is None:
        return UNUSUAL
    if not items:
        return NOT_YET
    item = items.popleft() if type(self) is fifo_type else items.pop()
    notify(putters, 1)
    return item


cdef object in_turn(object self, bint puts, object item, bint block, int64_t deadline):
    """Put the item, or get one, waiting as long as there is no room or no item. UNUSUAL: the original does
    it."""
    waiter = None
    while True:
        outcome = try_put(self, item) if puts else try_get(self)
        if outcome is not NOT_YET:
            return outcome
        if not block or (deadline != NEVER and deadline <= monotonic_ns()):
            raise Full if puts else Empty
        waiters = waiters_of(self.not_full if puts else self.not_empty)
        if waiters is None:
            return UNUSUAL
        if waiter is None:
            waiter = new_held_lock()            # which may have run a finaliser: look again
            continue
        waiters.append(waiter)
        if not wait_turn(waiters, waiter, deadline):
            deadline = 0                        # over, though its time may not be, as the interpreter ends
        waiter = None


def queue_put(self, item, block=True, timeout=None):
    """Put an item into the queue; queue.Full if there is no room, now or after `timeout` seconds."""
    cdef int64_t deadline = NEVER
    take_turns_at_times()
    if is_simple(self, block, timeout):
        if block and timeout is not None:
            deadline = deadline_after(timeout)
        if in_turn(self, True, item, block, deadline) is not UNUSUAL:
            return
        if deadline != NEVER:
            timeout = rest(timeout, deadline)
    original_queue_put(self, item, block, timeout)


def queue_get(self, block=True, timeout=None):
    """Remove and return an item; queue.Empty if there is none, now or after `timeout` seconds."""
    cdef int64_t deadline = NEVER
    take_turns_at_times()
    if is_simple(self, block, timeout):
        if block and timeout is not None:
            deadline = deadline_after(timeout)
        item = in_turn(self, False, None, block, deadline)
        if item is not UNUSUAL:
            return item
        if deadline != NEVER:
            timeout = rest(timeout, deadline)
    return original_queue_get(self, block, timeout)
