from syncless.asgi.request cimport Request


cdef enum WebSocketStage:
    CONNECTING              # websocket.connect has not been given
    OFFERED                 # it has
    OPEN                    # accepted
    DENIED                  # answered by a response of HTTP
    OVER                    # closed, by either side


cdef class WebSocketRequest(Request):
    cdef object websocket           # http.websocket.WebSocket
    cdef WebSocketStage progress
    cdef object inbox               # messages that have come and have not been asked for
    cdef Py_ssize_t held            # bytes in it
    cdef bint silent                # the client sends no more messages
    cdef bint reads                 # it waits for the client's next message
    cdef object refusal             # the error that answers the handshake in the application's place, or None
    cdef object ended               # is thrown when the application has ended meanwhile

    cdef int offer(self, object limits, bint can_speak) except -1
    cdef int refuse(self) except -1
    cdef int wake_ears(self) except -1
    cdef int keep(self, object message) except -1
    cdef int accept(self, dict message) except -1
    cdef object say_message(self, dict message)
    cdef object say_close(self, dict message)
    cdef object deny(self, str kind, dict message)
