"""http/clients: connections of one client are counted together."""

import pytest

from syncless.http.clients import Clients


@pytest.mark.parametrize(
    "addresses",
    [
        ["192.0.2.1"] * 3,
        ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::1"],
        ["fe80::1%eth0", "fe80::2%eth1", "fe80::3"],
    ],
)
def test_client_may_have_as_many_connections_as_the_limit_says(addresses):
    clients = Clients(2)
    assert [clients.enter(address) for address in addresses] == [True, True, False]
    assert len(clients) == 1


def test_clients_are_counted_apart():
    clients = Clients(1)
    assert all(
        clients.enter(address) for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1")
    )
    assert len(clients) == 4


def test_connection_that_leaves_makes_room_for_another_one():
    clients = Clients(1)
    assert clients.enter("192.0.2.1")
    assert not clients.enter("192.0.2.1")
    clients.leave("192.0.2.1")
    assert clients.enter("192.0.2.1")  # the refused one was never counted


def test_nothing_is_kept_of_clients_without_connections():
    clients = Clients(5)
    for address in ("192.0.2.1", "192.0.2.1", "2001:db8::1"):
        clients.enter(address)
    for address in ("192.0.2.1", "2001:db8::2", "192.0.2.1"):
        clients.leave(address)
    assert len(clients) == 0
