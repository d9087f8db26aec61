cdef void end_process(BaseException exception) noexcept
