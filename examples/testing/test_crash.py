"""A transfer that is killed half-way leaves its lock held, and the money is nowhere."""

import queue
import threading

from syncless.testing import crash_points


class Bank:
    def __init__(self):
        self.lock = threading.Lock()
        self.balances = {"one": 100, "two": 100}
        self.log = queue.Queue()

    def transfer(self, source, target, amount):
        self.lock.acquire()
        self.balances[source] -= amount
        self.log.put((source, target, amount))  # may wait, and whoever waits may be killed
        self.balances[target] += amount
        self.lock.release()


def test_a_killed_transfer_leaves_nothing_half_done(syncless_time):
    bank = Bank()
    for point in crash_points(bank.transfer, "one", "two", 10):
        assert not bank.lock.locked(), point
        assert sum(bank.balances.values()) == 200, point
