"""Tasklets in a circle pass a sack to each other: ``python -m examples.hackysack [PLAYERS [KICKS]]``.

Each waits for the sack on its own channel, and passes it to a random player. The program prints how long the
game took.
"""

import random
import sys
import time

import syncless.stackless as stackless


class Circle:
    def __init__(self, players, kicks):
        self.left = kicks
        self.over = stackless.channel()
        self.channels = [stackless.channel() for _ in range(players)]
        for channel in self.channels:
            stackless.tasklet(self.play)(channel)

    def play(self, channel):
        for _ in channel:
            self.left -= 1
            if self.left <= 0:
                self.over.send(None)
                return
            target = channel
            while target is channel:
                target = random.choice(self.channels)
            target.send(channel)


def main(players, kicks):
    if players < 2:
        raise SystemExit("a circle needs two players at least")
    circle = Circle(players, kicks)
    stackless.schedule()  # they all wait
    started = time.perf_counter()
    circle.channels[0].send(None)
    circle.over.receive()
    print(f"{kicks:,} kicks among {players:,} players in {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:3] or ("100",)), *([] if len(sys.argv) > 2 else [10_000]))
