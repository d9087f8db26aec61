"""Two threads take the same two locks in different orders, and each waits for the other for ever."""

import threading

import pytest


class Account:
    def __init__(self, balance):
        self.balance = balance
        self.lock = threading.Lock()


def transfer(source, target, amount):
    with source.lock, target.lock:
        source.balance -= amount
        target.balance += amount


@pytest.mark.schedules(200)
def test_transfers_end():
    one, two = Account(100), Account(100)
    there = threading.Thread(target=transfer, args=(one, two, 10), name="there")
    back = threading.Thread(target=transfer, args=(two, one, 10), name="back")
    there.start()
    back.start()
    there.join()
    back.join()
    assert one.balance + two.balance == 200
