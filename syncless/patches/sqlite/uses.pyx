"""The use of a connection, by one tasklet or thread at a time; statements that are executed directly.

Takes: the methods of sqlite3 and what is known of a connection. Gives: methods that run in the tasklet itself
where nothing waits, and leave the rest to those of statements.py and rows.py.

Fact: SQLite computes and reads in C for as long as a statement takes. Decision: after each STEPS steps of its
machine it calls a progress handler, which lets the others run when a poll is due; the tasklet keeps its C
stack where it stands.

Danger: the connection's mutex is held meanwhile. It belongs to the OS thread, so another tasklet would enter
SQLite in the middle of a statement; another thread would wait for it with the GIL, which the handler needs.
Decision: one tasklet or thread at a time uses a connection, and functions that SQLite calls may use it too.

Fact: SQLite waits for a lock in its own sleep. Decision: it does not wait while a tasklet executes a
statement, which is retried after a cooperative pause. Price: a PRAGMA when a connection changes between
the tasklet and the threads.
"""

import re
from contextlib import suppress
from functools import wraps

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from syncless._core.cpython.functions import original_of
from syncless._core.calls.filesystems cimport (
    LONGEST_TRIAL, TRIAL, FileSystem, begin_call, begin_in_thread, is_quick, never, of_path, pools_all, took,
)
from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.compat cimport Py_IsFinalizing
from syncless._core.current cimport ThrownHere, may_park, take_turns
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, is_poll_due
from syncless._core.threadloop cimport peek_loop
from syncless._core.wait.sync cimport Semaphore

from syncless._core.current import sleep

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL

STEPS = 2000
FIRST_PAUSE, LAST_PAUSE = 0.001, 0.05       # seconds between two tries
KINDS = 512                                 # statements whose kind is remembered

cdef enum:
    READS = 1               # and changes nothing
    BEGINS = 2              # a transaction, which has no lock yet; or does nothing
    REACHES_OUT = 4         # beyond the connection's own database
    WRITES = 8              # rows, and gives none
    UNKNOWN = -2            # no deadline yet
    SLICE = 200000          # ns of one tasklet's statements before the others get a turn, where a poll is due
    STATEMENTS = 64         # or as many of them

cdef int steps = STEPS
cdef bint caches_are_shared = False     # by connections that open the same file
cdef object ABSENT = object()
cdef dict uses = {}         # see remember()
cdef dict kinds = {}
cdef object reads = re.compile(
    r"\s*(SELECT|VALUES|WITH(?!.*\b(INSERT|UPDATE|DELETE|REPLACE)\b))\b", re.IGNORECASE | re.DOTALL).match
cdef object begins = re.compile(
    r"\s*(BEGIN(?!\s+(IMMEDIATE|EXCLUSIVE))|SAVEPOINT|EXPLAIN)\b", re.IGNORECASE).match
cdef object writes = re.compile(
    r"\s*(INSERT|REPLACE|UPDATE|DELETE)\b(?!.*\bRETURNING\b)", re.IGNORECASE | re.DOTALL).match
cdef object reaches_out = re.compile(r"\b(ATTACH|VACUUM)\b", re.IGNORECASE).search


cdef int kind_of(str sql) except -1:
    cdef PyObject* found = PyDict_GetItemWithError(kinds, sql)
    if found != NULL:
        return <object> found
    if len(kinds) >= KINDS:
        kinds.clear()
    kind = READS if reads(sql) else BEGINS if begins(sql) else WRITES if writes(sql) else 0
    kinds[sql] = kind = kind | (REACHES_OUT if reaches_out(sql) else 0)
    return kind


cdef dict executions = {}   # text of a statement that writes -> _Executions


cdef class _Executions:
    """How quickly a statement that writes has been executed; by the rule for functions in filesystems.pyx."""
    cdef int left                   # quick ones in a row that are needed before it is executed directly
    cdef int sentence

    def __cinit__(self):
        self.left = self.sentence = TRIAL

    cdef int answered(self, int64_t ns, bint in_thread) except -1:
        if is_quick(ns, in_thread):
            self.left = max(0, self.left - 1)
            return 0
        if not in_thread:               # in a thread it may have waited for a lock
            self.sentence = min(2 * self.sentence, LONGEST_TRIAL)
        self.left = self.sentence
        return 0


cdef _Executions executions_of(str sql):
    cdef PyObject* found = PyDict_GetItemWithError(executions, sql)
    if found != NULL:
        return <_Executions> found
    if len(executions) >= KINDS:
        executions.clear()
    made = executions[sql] = _Executions()
    return made


def timed(str sql, function, *args):
    """function(*args), which executes this statement, in a thread."""
    cdef int64_t began = begin_in_thread()
    try:
        return function(*args)
    finally:
        executions_of(sql).answered(took(began), True)


cdef uint64_t user() noexcept:
    """Return the running tasklet by its serial number, or the OS thread, whose ident is larger."""
    cdef Loop loop = peek_loop()
    return PyThread_get_thread_ident() if loop is None or loop.current is None else loop.current.serial


cdef class Job:
    """A call of a connection in a thread."""
    cdef public bint over           # nobody waits for it any more


cdef class Use:
    """Of a connection."""
    cdef public bint alone          # its database is in memory, where no other connection can reach it
    cdef public bint holds          # its transaction has a lock
    cdef public bint unsynced       # nothing waits for the disk: PRAGMA synchronous=OFF
    cdef object entering            # the share of threads of those that wait for the write lock
    cdef public object timeout      # seconds to wait for a lock; None if it is not known
    cdef readonly bint holds_up     # SQLite itself waits for locks now
    cdef bint turns                 # its progress handler is ours
    cdef FileSystem system          # on which it may be read directly
    cdef Semaphore free             # has units when those who wait are to look whether nobody uses it
    cdef readonly int waiting
    cdef uint64_t user
    cdef int depth                  # how often that user has entered
    cdef Job job                    # of the thread that uses it; None otherwise
    cdef object thrown              # at the tasklet while it was inside SQLite; None otherwise
    # the turn of the tasklet that executed the last statement: it ends with its next switch
    cdef uint64_t serial, switches
    cdef int64_t began              # when it executed its first one, ns
    cdef int statements
    cdef object handler     # the application's own
    cdef int calls, left    # how many of ours make one of it

    def __init__(self, entering):
        self.entering = entering
        self.free = Semaphore(0)
        self.holds_up = True

    def opened(self, connection, path) -> None:
        """`path`: of the file that others may have open too; None if only threads may use it."""
        self.system = None if path is None or caches_are_shared else of_path(path, False, None)
        if self.alone or self.system is not None:
            set_handler(connection, self.progress, steps)
            self.turns = True

    def progress(self):
        """SQLite's progress handler. An exception that is thrown here must not get lost in it."""
        if self.job is not None and self.job.over:
            return 1
        if self.depth:
            try:
                self.give_way()
            except BaseException as error:
                self.thrown = error
                return 1
        if self.handler is None:
            return 0
        self.left -= 1
        if self.left > 0:
            return 0
        self.left = self.calls
        return self.handler()

    cdef int give_way(self) except -1:
        """Let the others run when a poll is due, unless the tasklet has only just been let go on.

        Fact: on a busy server a poll is due in most requests. Danger: each of them yields amid its work,
        which costs a fifth of one that reads 50 rows. Decision: a tasklet keeps its turn for SLICE ns. Price:
        the others may wait that much longer. Guarded by
        tests/patches/test_sqlite.py::test_short_requests_keep_their_turn."""
        cdef Loop loop = peek_loop()
        cdef BaseTasklet me = None if loop is None else loop.current
        if me is None:
            return 0
        if me.serial == self.serial and me.switches == self.switches:
            self.statements += 1
            if not is_poll_due(&loop.clock) or (
                    self.statements < STATEMENTS and loop.clock.now - self.began < SLICE):
                return 0
            loop.yield_()
        self.serial, self.switches = me.serial, me.switches
        self.statements, self.began = 0, monotonic_ns()
        return 0

    cdef bint goes_directly(self, int kind) noexcept:
        if kind & REACHES_OUT:
            self.alone = False
            self.system = None
        return self.alone or (
            kind & (READS | BEGINS) and self.system is not None and not self.system.slow and not pools_all())

    cdef bint writes_directly(self, object connection, str sql) except -1:
        """Return whether a statement that writes may be tried without a thread: it has always been quick,
        syncs nothing, and overtakes nobody who waits for the lock in one.

        Fact: one statement in a thread costs as much as ten of them. Decision: one that is known as quick
        is tried directly, and goes to a thread if the database is locked. Price: the first one that
        is suddenly slow, as when SQLite's cache is full, stops the loop. Guarded by
        tests/patches/test_sqlite.py::test_quick_statements_that_write_need_no_thread."""
        if self.system is None or self.system.slow or pools_all() or never():
            return False
        if self.depth or executions_of(sql).left or not (self.holds or self.entering.is_free()):
            return False
        return connection.in_transaction or self.unsynced or (
            connection.isolation_level is not None and getattr(connection, "autocommit", -1) == -1)

    cdef object write(self, object connection, str sql, object function, object this, tuple args):
        """function(this, *args), or ABSENT if the database is locked."""
        cdef int64_t began = begin_call()
        self.enter()
        try:
            if self.holds_up:
                self.set_holds_up(connection, False)
            found = function(this, *args)
            self.holds = connection.in_transaction
            return found
        except BaseException as error:
            if self.thrown is None and isinstance(error, operational) and str(error) == "database is locked":
                return ABSENT
            with suppress(database_error):
                self.holds = connection.in_transaction
            raise
        finally:
            executions_of(sql).answered(took(began), False)
            self.leave_or_raise()

    def commit_directly(self, connection, commit):
        """Commit what never waits for a disk; False if that is left to a thread."""
        return self.unsynced and self.holds and self.writes_directly(connection, "COMMIT") and (
            self.write(connection, "COMMIT", commit, connection, ()) is not ABSENT)

    def stays_here(self, sql):
        """Return whether nothing can block the statements."""
        kind = kind_of(sql)
        return self.goes_directly(kind) and self.alone

    cpdef bint is_inside(self) noexcept:
        """Return whether the caller uses the connection already: by a function that SQLite calls, or because
        Connection.execute() calls that of a cursor. A thread would wait for it for ever."""
        return self.depth and self.user == user()

    cpdef bint is_used_elsewhere(self) noexcept:
        """Return whether another tasklet or thread uses it. Then nothing may be asked of the connection:
        since some release before 3.53, SQLite waits even for `in_transaction` until a statement has ended,
        and the GIL is held meanwhile, which that statement's progress handler needs."""
        return self.depth and self.user != user()

    cdef inline int enter(self) except -1:
        if self.depth == 0:
            self.user = user()
        elif self.user != user():
            return self.wait_and_enter()
        self.depth += 1
        return 0

    cdef int wait_and_enter(self) except -1:
        self.waiting += 1
        try:
            while self.depth:
                self.free.acquire_unit(True, None)
        finally:
            self.waiting -= 1
        self.user = user()              # after the wait, which makes a loop in a thread that has none
        self.depth = 1
        return 0

    cdef inline int leave(self) except -1:
        self.depth -= 1
        if self.depth == 0 and self.waiting:
            self.free.release_unit()
        return 0

    cdef inline int leave_or_raise(self) except -1:
        """Leave, and raise the exception that was thrown inside SQLite, which turns it into an error of its
        own, or drops it."""
        thrown, self.thrown = self.thrown, None
        self.leave()
        if thrown is not None:
            raise thrown from None
        return 0

    cdef int set_holds_up(self, object connection, bint holds_up) except -1:
        if self.timeout is not None and self.holds_up != holds_up:
            seconds = self.timeout if holds_up else 0
            run_pragma(connection, f"PRAGMA busy_timeout={min(int(seconds * 1000), 0x7fffffff)}")
            self.holds_up = holds_up
        return 0

    cpdef object call(self, object connection, bint holds_up, object function, tuple args, Job job=None):
        """function(*args), while nobody else uses the connection. `holds_up`: whether SQLite itself waits for
        a lock; no matter without a connection."""
        self.enter()
        try:
            if job is not None:
                if job.over:
                    return None
                self.job = job
            if connection is not None and self.holds_up != holds_up:
                self.set_holds_up(connection, holds_up)
            return function(*args)
        finally:
            if job is not None:
                self.job = None
            self.leave_or_raise()

    cdef object execute(self, object connection, object function, object this, object sql,
            object parameters):
        """As call(), of what may be retried while the database is locked."""
        cdef int64_t deadline = UNKNOWN, left
        cdef double pause = FIRST_PAUSE
        while True:
            self.enter()
            try:
                if self.holds_up and not self.alone:
                    self.set_holds_up(connection, False)
                return function(this, sql) if parameters is ABSENT else function(this, sql, parameters)
            except BaseException as error:
                if self.thrown is not None or self.depth > 1 or not (
                        isinstance(error, operational) and str(error) == "database is locked"):
                    raise
                if deadline == UNKNOWN:
                    deadline = deadline_after(self.timeout)
                left = deadline - monotonic_ns()
                if deadline != NEVER and left <= 0:
                    raise
            finally:
                self.leave_or_raise()
            sleep(pause if deadline == NEVER else min(pause, left / 1e9))
            pause = min(2 * pause, LAST_PAUSE)


cdef object operational, database_error, new_cursor, execute, set_handler


def install(module) -> None:
    """Take what it needs of the module, before that is changed."""
    global operational, database_error, new_cursor, execute, set_handler
    operational, database_error = module.OperationalError, module.DatabaseError
    new_cursor, execute = module.Cursor, module.Cursor.execute
    set_handler = module.Connection.set_progress_handler


cdef object run_pragma(connection, sql):
    return execute(new_cursor(connection), sql)


cdef PyObject* latest = NULL        # a connection by its address, which most calls are for
cdef Use use_of_latest = None


def remember(connection, Use use) -> None:
    """By id(). A connection made under the patch replaces any earlier one with its id; an older connection is
    the only one with its id."""
    global latest
    uses[<uintptr_t> <PyObject*> connection] = use
    latest = NULL


cpdef Use use_of(connection):
    """None if it is not remembered."""
    global latest, use_of_latest
    cdef PyObject* found
    if <PyObject*> connection == latest:
        return use_of_latest
    found = PyDict_GetItemWithError(uses, <uintptr_t> <PyObject*> connection)
    if found == NULL:
        return None
    latest, use_of_latest = <PyObject*> connection, <Use> found
    return use_of_latest


def let_wait(connection) -> None:
    """SQLite itself waits for locks."""
    cdef Use use = use_of(connection)
    if use is not None:
        with suppress(database_error):      # it is closed
            use.set_holds_up(connection, True)


def read_timeout(connection, Use use) -> None:
    """After a statement that may have set it."""
    use.timeout = run_pragma(connection, "PRAGMA busy_timeout").fetchone()[0] / 1000


def read_synchronous(connection, Use use) -> None:
    """After a statement that may have set it."""
    use.unsynced = run_pragma(connection, "PRAGMA synchronous").fetchone()[0] == 0


cdef object original_execute():
    return execute


def executes(original, in_thread, bint of_connections, dict ahead):
    """Return the method execute of cursors or of connections. in_thread(original, self, *args) is the other
    way. `ahead`: the cursors of which rows were fetched in threads."""
    execute_it = original_execute()

    def execute(self, sql=ABSENT, parameters=ABSENT, /):
        cdef Use use
        cdef int kind
        if type(sql) is str and may_park() and not Py_IsFinalizing():
            connection = self if of_connections else getattr(self, "connection", None)
            use = use_of(connection)
            if use is not None:
                kind = kind_of(sql)
                if use.goes_directly(kind) or kind & (READS | BEGINS) and use.is_inside():
                    use.give_way()
                    if ahead:
                        ahead.pop(id(self), None)
                    found = use.execute(connection, original, self, sql, parameters)
                    if ahead:       # by the thread of a tasklet that was interrupted
                        ahead.pop(id(self), None)
                    if kind & READS and not use.alone and not use.holds and (
                            not use.is_used_elsewhere() and connection.in_transaction):
                        use.holds = True
                    return found
                if kind & WRITES and use.writes_directly(connection, sql):
                    use.give_way()
                    cursor = connection.cursor() if of_connections else self
                    if ahead:
                        ahead.pop(id(cursor), None)
                    args = (sql,) if parameters is ABSENT else (sql, parameters)
                    if use.write(connection, sql, execute_it, cursor, args) is not ABSENT:
                        return cursor
        return in_thread(original, self, *[each for each in (sql, parameters) if each is not ABSENT])
    return wraps(original)(execute)


cdef Use fetching(object cursor, dict ahead):
    """Return the use in which rows of a statement that was executed directly are fetched; None for others."""
    cdef Use use
    if not may_park() or (ahead and id(cursor) in ahead) or Py_IsFinalizing():
        return None
    use = use_of(getattr(cursor, "connection", None))
    return None if use is None or not (use.alone or use.system is not None) else use


def fetches(original, in_thread, dict ahead):
    """Return a method that fetches one row, or all."""
    def fetch(self):
        cdef Use use = fetching(self, ahead)
        if use is None:
            return in_thread(original, self)
        use.enter()
        try:
            return original(self)
        finally:
            use.leave_or_raise()
    return wraps(original)(fetch)


def fetches_many(original, in_thread, dict ahead):
    """Return a method that fetches some rows."""
    def fetchmany(self, *args, **kwargs):
        cdef Use use = fetching(self, ahead)
        if use is None or kwargs:
            return in_thread(original, self, *args, **kwargs)
        return use.call(None, False, original, (self, *args))
    return wraps(original)(fetchmany)


def enables_shared_cache(original):
    original = original_of(original)

    def enable_shared_cache(do_enable):
        global caches_are_shared
        original(do_enable)
        caches_are_shared = do_enable
    return wraps(original)(enable_shared_cache)


def sets_progress_handler(original):
    """set_progress_handler, which keeps the application's handler behind ours. SQLite is given a function
    of the same name, which the report of an error shows."""
    def method(connection, *args, **kwargs):
        cdef Use use = use_of(connection)
        given = dict(zip(("progress_handler", "n"), args), **kwargs)
        if use is None or not use.turns or len(args) > 2 or given.keys() != {"progress_handler", "n"}:
            return original(connection, *args, **kwargs)
        handler, n = given["progress_handler"], given["n"]
        if not isinstance(n, int) or n <= 0:
            handler, n = None, steps
        calls = -(-n // steps)          # of ours for one of the application's
        every = n // calls
        progress = use.progress if handler is None else wraps(handler)(lambda: use.progress())
        ours = {"progress_handler": progress, "n": every}
        names = list(ours)[:len(args)]
        original(connection, *[ours.pop(name) for name in names], **ours)
        use.handler = None if handler is None else Callback(use, handler)
        use.calls = use.left = calls
    return wraps(original)(method)


cdef class Callback:
    """A function of the application that SQLite calls. An exception that is thrown at the tasklet inside it
    must not get lost in SQLite; those of the function itself are errors of SQLite, as without the patch."""
    cdef Use use
    cdef object function

    def __cinit__(self, Use use, function):
        self.use = use
        self.function = function

    def __call__(self, *args):
        with ThrownHere() as thrown:
            try:
                return self.function(*args)
            except BaseException as error:
                if any([error is one for one in thrown]):
                    self.use.thrown = error
                raise

    def __getattr__(self, name):
        return getattr(self.function, name)

    def __repr__(self):
        return repr(self.function)      # in reports of its errors, as its __name__


cdef class Aggregate(Callback):
    """A class whose objects have methods that SQLite calls; or such an object."""
    def __call__(self):
        return Aggregate(self.use, Callback.__call__(self))

    def __getattr__(self, name):
        found = getattr(self.function, name)
        return Callback(self.use, found) if callable(found) else found


def registers(original, name, int position):
    """Return a method that gives SQLite a function of the application to call, as an argument of this name or
    at this position."""
    cdef object kind = Aggregate if name == "aggregate_class" else Callback

    def register(connection, *args, **kwargs):
        cdef Use use = use_of(connection)
        if use is None:
            pass
        elif len(args) > position and callable(args[position]):
            args = (*args[:position], kind(use, args[position]), *args[position + 1:])
        elif callable(kwargs.get(name)):
            kwargs = {**kwargs, name: kind(use, kwargs[name])}
        return original(connection, *args, **kwargs)
    return wraps(original)(register)


def in_turn():
    """Let the others run when a poll is due, in the mode in which files are used directly."""
    if never():
        take_turns()
