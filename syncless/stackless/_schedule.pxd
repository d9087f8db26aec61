"""[syncless.stackless._schedule] None"""

from syncless._core.bytecodes cimport BytecodeLimit
from syncless._core.scheduler cimport BaseTasklet
from syncless.stackless._thread cimport Thread


cdef BytecodeLimit preemption(Thread state, BaseTasklet runner, timeout, bint soft, bint in_all)
