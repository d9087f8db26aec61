"""The ID that a request is given: its own, or that of a trusted peer."""

# The two parts of a request's own id: its process and its number there.
cdef str process_id
cdef int process_forks = -1
cdef int64_t last_id = 0
GIVEN_ID = re.compile(r"[!-~]{1,200}")


cdef str id_of_process():
    global process_id, process_forks
    if process_forks != forks:
        process_id, process_forks = os.urandom(4).hex(), forks
    return process_id


cdef int64_t next_number() noexcept:
    global last_id
    last_id += 1
    return last_id


def new_id() -> str:
    """Return a request's own ID."""
    return f"{id_of_process()}-{next_number():x}"


def id_of(request, bint trusted):
    """Return the X-Request-ID that a trusted peer's request has, or None."""
    given = request.field("x-request-id") if trusted else None
    return given if given is not None and GIVEN_ID.fullmatch(given) else None
