"""The ID that a request is given: its own, or that of a trusted peer."""

# The two parts of a request's own id: its process and its number there.
cdef str process_id
cdef int64_t last_id = 0
GIVEN_ID = re.compile(r"[!-~]{1,200}")


def _begin_process():
    global process_id
    process_id = os.urandom(4).hex()


_begin_process()


cdef int64_t next_number() noexcept:
    global last_id
    last_id += 1
    return last_id


def new_id() -> str:
    """A request's own ID."""
    return f"{process_id}-{next_number():x}"


def id_of(request, bint trusted):
    """The X-Request-ID that a trusted peer's request has, or None."""
    given = request.field("x-request-id") if trusted else None
    return given if given is not None and GIVEN_ID.fullmatch(given) else None

at_fork(in_child=_begin_process)
