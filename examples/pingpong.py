"""Two tasklets, two channels: ``python -m examples.pingpong [ROUNDS]``. The first program of every Stackless
tutorial."""

import sys

import syncless.stackless as stackless


def answer(hears, says):
    for word in hears:
        print(word)
        says.send("pong")


def begin(says, hears, rounds):
    for _ in range(rounds):
        says.send("ping")
        print(hears.receive())
    says.close()


def main(rounds):
    there, back = stackless.channel(), stackless.channel()
    answers = stackless.tasklet(answer)(there, back)
    stackless.tasklet(begin)(there, back, rounds)
    stackless.run()
    answers.kill()  # it still waits for the next word


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
