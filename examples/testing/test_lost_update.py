"""Two threads add to a balance at the same time, and one of the sums is lost."""

import threading

import pytest


class Account:
    def __init__(self):
        self.balance = 0

    def deposit(self, amount):
        self.balance += amount  # reads, adds, and writes: another thread may come in between


@pytest.mark.schedules(200)
def test_no_deposit_is_lost():
    account = Account()
    threads = [threading.Thread(target=account.deposit, args=(10,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account.balance == 20
