"""A request that times out does not give its connection back to the pool."""

import queue
import threading
import time

import pytest


class Connection:
    def ask(self, question, answers):
        time.sleep(5)
        answers.put(question.upper())


class Pool:
    def __init__(self, size):
        self.free = queue.Queue()
        for _ in range(size):
            self.free.put(Connection())

    def ask(self, question, timeout):
        connection = self.free.get()
        answers = queue.Queue()
        threading.Thread(target=connection.ask, args=(question, answers)).start()
        answer = answers.get(timeout=timeout)  # raises queue.Empty, and the connection is lost
        self.free.put(connection)
        return answer


@pytest.mark.schedules(200)
def test_pool_gets_its_connections_back():
    pool = Pool(2)
    for question in ("one", "two"):
        try:
            assert pool.ask(question, timeout=5) == question.upper()
        except queue.Empty:
            pass
    assert pool.free.qsize() == 2
