"""Many tasklets query real servers through C libraries while others are killed or run out of time:
``python -m tests.patches.storm mysqlclient|psycopg2 PORT QUERIES``.

Every answer is compared with the question. Prints JSON: how many queries were answered, how many tasklets
were killed, how many deadlines passed, what was wrong, and what was left over.
"""

import gc
import json
import random
import sys

import syncless
from syncless.patches import native_stats, patch_all, patch_native

TASKLETS = 200
CONNECTIONS = 100
"""At once; servers allow some more."""


def mysqlclient(port):
    import MySQLdb

    def connect():
        return MySQLdb.connect(host="127.0.0.1", port=port, user="root")

    return connect, MySQLdb.Error, "SELECT %s, SLEEP(%s), REPEAT(%s, %s)"


def psycopg2(port):
    import psycopg2

    def connect():
        return psycopg2.connect(user="postgres", host="127.0.0.1", port=port)

    return connect, psycopg2.Error, "SELECT %s, pg_sleep(%s), REPEAT(%s, %s)"


DRIVERS = {"mysqlclient": (mysqlclient, "MySQLdb"), "psycopg2": (psycopg2, "psycopg2")}


class Storm:
    def __init__(self, driver, port, queries, seed=26):
        self.connect, self.error, self.query = driver(port)
        self.left = queries
        self.chance = random.Random(seed)
        self.places = syncless.Semaphore(CONNECTIONS)
        self.workers = set()
        self.counts = dict.fromkeys(("answered", "killed", "late", "wrong", "errors"), 0)

    def ask(self, connection):
        number = self.left
        self.left -= 1
        pause = self.chance.choice([0, 0, 0, 0.001, 0.02])
        size = self.chance.choice([1, 10, 1000, 100_000])
        cursor = connection.cursor()
        cursor.execute(self.query, (number, pause, chr(97 + number % 26), size))
        row = cursor.fetchone()
        cursor.close()
        if int(row[0]) != number or row[2] != chr(97 + number % 26) * size:
            self.counts["wrong"] += 1
        self.counts["answered"] += 1

    def work(self):
        """Queries on connections of its own. One that was broken off is closed, and another one made."""
        with self.places:
            connection = self.connect()
            try:
                while self.left > 0:
                    late = self.chance.random() < 0.01
                    try:
                        with syncless.deadline(0.005 if late else 60):
                            self.ask(connection)
                    except TimeoutError:
                        self.counts["late"] += 1
                        break
                    except self.error:
                        self.counts["errors"] += 1
                        raise
            finally:
                connection.close()

    def start(self):
        worker = syncless.spawn(self.work)
        self.workers.add(worker)
        worker.add_done_callback(self.ended)

    def ended(self, worker):
        self.workers.discard(worker)
        if self.left > 0:
            self.start()

    def kill_some(self):
        while self.left > 0:
            syncless.sleep(0.01)
            waiting = [worker for worker in self.workers if worker.status == "waiting"]
            if waiting:
                victim = self.chance.choice(waiting)
                victim.kill(block=False)
                self.counts["killed"] += 1

    def run(self):
        for _ in range(TASKLETS):
            self.start()
        killer = syncless.spawn(self.kill_some)
        while self.workers:
            syncless.sleep(0.05)
        killer.join()


def main(name, port, queries):
    driver, module = DRIVERS[name]
    patch_all(drivers=False)
    patch_native(module)
    before = syncless.current_loop().census()
    storm = Storm(driver, port, queries)
    storm.run()
    gc.collect()
    left = {key: value - before[key] for key, value in syncless.current_loop().census().items()}
    left = {key: value for key, value in left.items() if value and key != "busy carriers"}
    print(json.dumps({**storm.counts, "left": left, "native": native_stats()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
