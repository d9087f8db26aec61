"""How tasklets come to be. See spawning.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.tasklet cimport Tasklet

cdef int become_main(Loop loop, Tasklet main) except -1
