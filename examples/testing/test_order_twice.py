"""A client sends its order again if the connection is lost, and the shop may have it already."""

import socket
import threading

import pytest


class Shop:
    def __init__(self, address):
        self.listener = socket.create_server(address)
        self.orders = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with self.listener:
            while True:
                connection, _ = self.listener.accept()
                try:
                    with connection, connection.makefile("rwb") as stream:
                        if order := stream.readline():
                            self.orders.append(order)
                            stream.write(b"thanks\n")
                except OSError:
                    pass


def order(what):
    for _ in range(3):
        try:
            with socket.create_connection(("shop", 80)) as connection:
                connection.sendall(what)
                if connection.makefile("rb").readline():
                    return
        except OSError:
            pass  # try again: but was it the order that was lost, or the response?


@pytest.mark.schedules(200)
def test_an_order_is_placed_once(syncless_network):
    syncless_network.host("shop", "10.0.0.1")
    shop = Shop(("10.0.0.1", 80))
    order(b"one book\n")
    assert len(shop.orders) <= 1
