"""Functions that the engine calls and must not import; each is set by a module that is imported later.

| name | set by | called by | because |
|---|---|---|---|
| `new_main` | tasklet.pyx | get_loop() | a loop begins with a main tasklet; tasklets are built on loops |
| `main_type` | tasklet.pyx, then stackless | `new_main` | a Stackless program has a kind of its own |
| `new_tasklet` | tasklet.pyx, then stackless | spawn() | so is each tasklet that is spawned |
| `look_up` | io/socket.py | calls/messages.pyx | names are resolved in a layer above |
| `case_makers` | tools/results.py, stackless | select() | it waits for objects of theirs, too |
"""

cdef object new_main = None
cdef object main_type = None
cdef object new_tasklet = None
cdef object look_up = None
cdef dict case_makers = {}


def set_lookup(function) -> None:
    """function(socket, address) gives an address whose host name has become a number."""
    global look_up
    look_up = function


def set_case_maker(kind, maker) -> None:
    """maker(source) makes the Case that stands for an object of that type in select()."""
    case_makers[kind] = maker
