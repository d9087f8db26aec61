from syncless.http.exchange cimport Exchange


cdef class Conversation(Exchange):
    cdef object hear(self)
    cdef object say(self, object message)


cdef class Operation:
    cdef Conversation request            # None: the request has ended, or never was
    cdef object inner               # the iterator of a future that is waited for

    cdef object start(self)


cdef class Sending(Operation):
    cdef object message


cdef class Receiving(Operation):
    pass


cdef class Send:
    cdef Conversation request            # None: the request has ended


cdef class Receive:
    cdef Conversation request            # None: the request has ended
