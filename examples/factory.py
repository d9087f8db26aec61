"""A factory with 100,000 workers: ``python -m examples.factory [WORKERS]``.

Each worker takes a part from the previous one, works on it, and passes it on. One part goes down the whole
line; then all workers are killed.
"""

import sys
import time

import syncless.stackless as stackless


def worker(takes, gives):
    for part in takes:
        gives.send(part + 1)


def main(workers):
    started = time.perf_counter()
    first = last = stackless.channel()
    line = []
    for _ in range(workers):
        after = stackless.channel()
        line.append(stackless.tasklet(worker)(last, after))
        last = after
    stackless.schedule()
    ready = time.perf_counter()
    first.send(0)
    part = last.receive()
    done = time.perf_counter()
    for each in line:
        each.kill()
    print(f"{part:,} workers: hired in {ready - started:.2f} s, one part made in {done - ready:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
