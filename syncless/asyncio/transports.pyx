"""The transport of a connected stream socket, TCP or UNIX.

Takes a socket and a protocol. Gives what asyncio promises of a transport; data come through
halves.pyx and go through halves.pyx. It must not know TLS, which is a protocol and a transport of
the standard library's (asyncio.sslproto), nor how a connection came to be.
"""

import inspect
import socket as _stdlib
import warnings
from asyncio import base_events, constants, futures, transports, trsock

from cython cimport final

from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ, WRITE
from syncless.asyncio.callbacks cimport Callbacks
from syncless.asyncio.halves cimport Endpoint, Reader, Writer

from syncless.asyncio.reports import logger

cdef object set_nodelay = base_events._set_nodelay
cdef tuple INTERNET = (_stdlib.AF_INET, _stdlib.AF_INET6)
cdef object wake_waiter = futures._set_result_unless_cancelled
cdef bint counts_transports = len(inspect.signature(base_events.Server._attach).parameters) > 1


cdef int send_at_once(object sock) except -1:
    """Small pieces do not wait for the acknowledgement of those before. Sockets that the program has made,
    and those that such a one has accepted, have protocol 0, which set_nodelay() does not take for TCP."""
    set_nodelay(sock)
    if sock.proto == 0 and sock.family in INTERNET:
        sock.setsockopt(_stdlib.IPPROTO_TCP, _stdlib.TCP_NODELAY, True)
    return 0


class StandardTransport(transports._FlowControlMixin, transports.Transport):
    """isinstance() takes a SocketTransport for one of these. It cannot have Python classes as its bases."""


@final
cdef class SocketTransport(Endpoint):
    """Made by create_connection(), create_server() and their kin."""
    cdef object sock                # None once it is closed
    cdef object server              # the asyncio Server that accepted it, or None
    cdef object context             # for the protocol's methods, given since Python 3.15; or None: a copy
    cdef dict extra
    cdef Reader reading
    cdef Writer writing
    cdef object __weakref__

    _start_tls_compatible = True
    _sendfile_compatible = constants._SendfileMode.TRY_NATIVE

    def __init__(self, Callbacks loop, sock, protocol, waiter=None, extra=None, server=None, context=None):
        cdef list begun = None
        self.sock = sock
        self.loop = loop
        self.context = context
        self.descriptors = loop.descriptors
        try:
            begun = [None, None, None]
            self.begin(protocol, waiter, extra, server, begun)
        except BaseException:
            for handle in begun or ():
                if handle is not None:
                    handle.cancel()
            self.close_socket()
            raise

    cdef int begin(self, protocol, waiter, extra, server, list begun) except -1:
        """`begun`: takes the handles of calls that must not be made if this fails."""
        loop, sock, context = self.loop, self.sock, self.context
        self.extra = {} if extra is None else dict(extra)
        self.extra["socket"] = trsock.TransportSocket(sock)
        for name, ask in (("sockname", sock.getsockname), ("peername", sock.getpeername)):
            if name not in self.extra:
                try:
                    self.extra[name] = ask()
                except OSError:
                    self.extra[name] = None
        self.fd = sock.fileno()
        self.reading = Reader.__new__(Reader)
        self.reading.begin(self, sock.family in INTERNET, context)
        self.writing = Writer.__new__(Writer)
        self.writing.begin(self, context)
        self.set_protocol(protocol)
        if server is not None:
            server._attach(self) if counts_transports else server._attach()
            self.server = server
        loop._transports[self.fd] = self
        send_at_once(sock)
        begun[0] = loop.call_soon(protocol.connection_made, self, context=context)
        begun[1] = loop.call_soon(self._begin_reading)      # not before connection_made() was called
        if waiter is not None:
            begun[2] = loop.call_soon(wake_waiter, waiter, None)
        return 0

    @property
    def __class__(self):
        return StandardTransport

    def __del__(self):
        if self.sock is not None:
            warnings.warn(f"unclosed transport {self!r}", ResourceWarning, source=self)
            self.sock.close()
            if self.server is not None and counts_transports:
                self.server._detach(self)

    def __repr__(self):
        said = ["SocketTransport"]
        if self.sock is None:
            said.append("closed")
        elif self.closing:
            said.append("closing")
        said.append(f"fd={self.fd}")
        if self.sock is not None:
            polls = self.reader is not None and not self.reading.paused
            said.append("read=polling" if polls else "read=idle")
            said.append(
                f"write=<{'idle' if self.writer is None else 'polling'}, "
                f"bufsize={self.get_write_buffer_size()}>")
        return f"<{' '.join(said)}>"

    # -- its properties --------------------------------------------------------------------------------------

    def get_extra_info(self, name, default=None):
        """'socket', 'sockname', 'peername', or what was given when it was made."""
        return self.extra.get(name, default)

    def get_protocol(self):
        return self.protocol

    def set_protocol(self, protocol):
        """From now on the protocol gets what is read."""
        self.reading.give_to(protocol)
        self.protocol = protocol

    def is_closing(self):
        return self.closing

    # asyncio's sendfile() and start_tls(), and some programs, ask for these

    @property
    def _sock(self):
        return self.sock

    @property
    def _sock_fd(self):
        return self.fd

    @property
    def _loop(self):
        return self.loop

    @property
    def _protocol(self):
        return self.protocol

    @property
    def _closing(self):
        return self.closing

    @property
    def _protocol_paused(self):
        return self.writing.protocol_paused

    @property
    def _paused(self):
        return self.reading.paused

    # -- reading ---------------------------------------------------------------------------------------------

    def is_reading(self):
        return not self.closing and not self.reading.paused

    def pause_reading(self):
        """The protocol gets nothing until resume_reading()."""
        if self.is_reading():
            self.reading.paused = True
            if self.loop.get_debug():
                logger.debug("%r pauses reading", self)

    def resume_reading(self):
        if self.closing or not self.reading.paused:
            return
        self.reading.paused = False
        if self.reader is not None and self.reading.more:
            self.due(self.reading)
        if self.loop.get_debug():
            logger.debug("%r resumes reading", self)

    def _begin_reading(self):
        if not self.closing:
            self.reader = self.reading
            try:
                self.follow()
            except OSError as error:                    # no memory: a transport that hears nothing never ends
                self._fatal_error(error, "Fatal error: cannot wait for the transport.")

    cdef int on_ready(self, Loop engine, int bits) except -1:
        if bits & READ and self.reader is not None:
            self.reading.reported(bits)
        if bits & WRITE and self.writer is not None:
            self.writing.more = True
            self.due(self.writer)                       # the writer, or a sendfile() that goes on
        return 0

    # -- writing ---------------------------------------------------------------------------------------------

    def write(self, data):
        """Send the data, at once as far as the socket takes it. Never waits."""
        self.writing.write(data)

    def writelines(self, list_of_data):
        """As write() for each piece, with fewer system calls."""
        self.writing.write_all(list(list_of_data))

    def write_eof(self):
        """The peer reads the end of the stream once all has been sent."""
        if not self.closing:
            self.writing.end()

    def can_write_eof(self):
        return True

    def get_write_buffer_size(self):
        """Return bytes that were written and are unsent."""
        return self.writing.unsent.size

    def get_write_buffer_limits(self):
        """(low, high) in bytes."""
        return self.writing.low, self.writing.high

    def set_write_buffer_limits(self, high=None, low=None):
        """The protocol's pause_writing() is called when more than `high` bytes are unsent (default 64 KiB),
        resume_writing() when it is `low` or less (default a quarter of it)."""
        self.writing.set_limits(high, low)

    def _make_empty_waiter(self):
        """Return a future for the moment when nothing is unsent. Nothing can be written until
        _reset_empty_waiter(). asyncio's sendfile() asks for it."""
        if self.writing.empty_waiter is not None:
            raise RuntimeError("Empty waiter is already set")
        waiter = self.writing.empty_waiter = self.loop.create_future()
        if self.writing.unsent.size == 0:
            waiter.set_result(None)
        return waiter

    def _reset_empty_waiter(self):
        self.writing.empty_waiter = None

    # -- its end ---------------------------------------------------------------------------------------------

    def close(self):
        """Close the connection when all has been sent. The protocol gets nothing more."""
        if self.closing:
            return
        self.closing = True
        self.reader = None
        if self.writing.unsent.size == 0 and not self.lost:
            self.lost = 1
            self.loop.call_soon(self._call_connection_lost, None, context=self.context)

    def abort(self):
        """Close the connection now."""
        self._force_close(None)

    cdef object went_wrong(self, error, message):
        self._fatal_error(error, message or "Fatal error: protocol.data_received() call failed.")

    def _fatal_error(self, error, message="Fatal error on transport"):
        if self.loop is None:
            return
        if not isinstance(error, OSError):
            self.loop.call_exception_handler({
                "message": message,
                "exception": error,
                "transport": self,
                "protocol": self.protocol,
            })
        elif self.loop.get_debug():
            logger.debug("%r: %s", self, message, exc_info=error)
        self._force_close(error)

    def _force_close(self, error):
        if self.lost:
            return
        self.writing.unsent.clear()
        self.reader = self.writer = None
        self.closing = True
        self.lost = 1
        self.loop.call_soon(self._call_connection_lost, error, context=self.context)

    cdef int finish_closing(self) except -1:
        self.lost = 1
        self._call_connection_lost(None)
        return 0

    def _call_connection_lost(self, error):
        try:
            self.protocol.connection_lost(error)
        finally:
            self.forget()
            self.close_socket()
            self.loop = self.protocol = self.reading.get_buffer = self.reading.callback = None
            waiter = self.writing.empty_waiter
            if waiter is not None and not waiter.done():
                waiter.set_exception(ConnectionError("Connection is closed by peer"))

    cdef int close_socket(self) except -1:
        sock, self.sock = self.sock, None
        sock.close()
        if self.server is not None:
            server, self.server = self.server, None
            server._detach(self) if counts_transports else server._detach()
        return 0
