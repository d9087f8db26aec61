"""How tasklets come to be: spawn() and spawn_in(), and the main tasklet of each thread.

The kinds of tasklets that are made are in hooks.pyx, because Stackless has its own.
"""

from cpython.contextvars cimport PyContext_CopyCurrent

from syncless._core cimport hooks
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport RUNNING
from syncless._core.tasklet cimport Tasklet, refuse_spawn
from syncless._core.threadloop cimport get_loop, loop_of


def spawn(function, *args, **kwargs) -> Tasklet:
    """Runs function(*args, **kwargs) in a new tasklet of this thread, with a copy of the current context
    (contextvars).

    It starts when the current tasklet waits or ends.
    """
    return hooks.new_tasklet(function, *args, **kwargs)


def spawn_in(where, function, *args, **kwargs) -> Tasklet:
    """spawn() in another thread: its loop, as its current_loop() gave it, a threading.Thread, or a thread's
    number.

    RuntimeError if the loop's thread has ended, LookupError if the thread has ended or has not used syncless
    yet.
    """
    cdef Loop loop = loop_of(where)
    cdef Tasklet made = Tasklet.__new__(Tasklet)
    if loop.ending or loop.closed:
        refuse_spawn()
    if not callable(function):
        raise TypeError(f"a tasklet needs a function to run, not {type(function).__name__}")
    made.function = function
    made.args = args
    made.kwargs = kwargs or None
    made.context = PyContext_CopyCurrent()
    made._start_in(loop)
    made.parent = get_loop().current.serial if get_loop().current is not None else 0
    return made


cdef int become_main(Loop loop, Tasklet main) except -1:
    """It stands for the code of the loop's thread that was not spawned, and is running whenever no other
    tasklet is. If another has done that before, which must be running, it goes on with what belongs to
    that."""
    cdef Tasklet before = loop.main
    main.is_main = True
    main.state = RUNNING
    main._name = "main"
    if before is not None:
        main.pending, before.pending = before.pending, None
        main.serial = before.serial
        main.switches = before.switches
        main.cpu = before.cpu
        main.locals = before.locals
        main.switch_hook = before.switch_hook
        main.callbacks = before.callbacks
        loop.release(before)
    loop.main = main
    loop.adopt(main)
    loop.current = main                 # not before: it would be its own parent
    return 0


def _new_main(Loop loop):
    become_main(loop, <Tasklet> hooks.main_type.__new__(hooks.main_type))


hooks.main_type = hooks.new_tasklet = Tasklet
hooks.new_main = _new_main
