"""A client of HTTP/2, by the library h2, for tests."""

import contextlib

import pytest

from syncless.io import socket

connection = pytest.importorskip("h2.connection", reason="the client is the library h2: pip install h2")
from h2 import config, events, exceptions  # noqa: E402  # after the skip


class Client:
    """A connection of HTTP/2: what it asks for, and the events that come."""

    @classmethod
    def over(cls, sock, **settings):
        client = cls.__new__(cls)
        client.begin(sock, settings)
        return client

    def __init__(self, server, **settings):
        self.begin(socket.create_connection(server.address, timeout=60), settings)

    def begin(self, sock, settings):
        self.sock = sock
        self.h2 = connection.H2Connection(
            config.H2Configuration(
                client_side=True,
                header_encoding="latin-1",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings(settings)
        self.events = []
        self.ended = False
        self.opens_windows = True
        self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def ask(self, path="/", method="GET", *fields, body=None, ends=True, authority="a"):
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *fields]
        self.h2.send_headers(stream, head, end_stream=body is None and ends)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=ends)
        self.flush()
        return stream

    def upload(self, stream, data, ends=True):
        """Sends all of it, as the windows open."""
        while data:
            part = min(len(data), self.h2.local_flow_control_window(stream), 16384)
            if part:
                self.h2.send_data(stream, data[:part])
                data = data[part:]
                self.flush()
            else:
                assert self.read(), f"the connection ended: {self.events}"
        if ends:
            self.h2.end_stream(stream)
            self.flush()

    def read(self):
        """Whether something has come."""
        try:
            data = self.sock.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.ended = True
            return False
        try:
            found = self.h2.receive_data(data)
        except exceptions.ProtocolError:
            self.ended = True
            return False
        for event in found:
            self.events.append(event)
            if isinstance(event, events.DataReceived) and self.opens_windows:
                with contextlib.suppress(exceptions.ProtocolError):  # the stream has ended
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return True

    def wait_for(self, kind, stream=None):
        while True:
            for event in self.events:
                if isinstance(event, kind) and (stream is None or event.stream_id == stream):
                    return event
            assert self.read(), f"the connection ended before {kind.__name__}: {self.events}"

    def answer(self, stream):
        """(status, headers, body); the body is None if the stream was reset."""
        while not any(
            isinstance(event, (events.StreamEnded, events.StreamReset)) and event.stream_id == stream
            for event in self.events
        ):
            assert self.read(), f"the connection ended: {self.events}"
        mine = [event for event in self.events if getattr(event, "stream_id", None) == stream]
        reset = any(isinstance(event, events.StreamReset) and event.error_code for event in mine)
        heads = [dict(event.headers) for event in mine if isinstance(event, events.ResponseReceived)]
        body = b"".join(event.data for event in mine if isinstance(event, events.DataReceived))
        head = heads[0] if heads else {}
        return int(head.pop(":status", 0)), head, None if reset else body

    def get(self, *args, **options):
        return self.answer(self.ask(*args, **options))

    def close(self):
        self.sock.close()


def connector(start):
    """connect(app, **options) -> (server, function that makes a Client); all are closed at the end."""
    clients = []

    def begin(app, **options):
        server = start(app, http2="cleartext", **options)

        def client(**settings):
            clients.append(Client(server, **settings))
            return clients[-1]

        return server, client

    yield begin
    for client in clients:
        client.close()
