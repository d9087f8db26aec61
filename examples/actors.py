"""Channels as actors: ``python -m examples.actors``. An account is a tasklet that alone knows its balance; it
is asked by a channel."""

import syncless.stackless as stackless


class Account:
    """Its methods may be called by any tasklet, and of any thread: they ask, and wait for the response."""

    def __init__(self, balance):
        self._asked = stackless.channel()
        stackless.tasklet(self._live)(balance)

    def _live(self, balance):
        for amount, answer in self._asked:
            if balance + amount < 0:
                answer.send_exception(ValueError, f"there are {balance} only")
            else:
                balance += amount
                answer.send(balance)

    def _ask(self, amount):
        answer = stackless.channel()
        self._asked.send((amount, answer))
        return answer.receive()

    def deposit(self, amount):
        return self._ask(amount)

    def withdraw(self, amount):
        return self._ask(-amount)


def customer(name, account, amounts):
    for amount in amounts:
        try:
            print(name, "has", account.deposit(amount) if amount > 0 else account.withdraw(-amount))
        except ValueError as error:
            print(name, "is told:", error)


def main():
    account = Account(10)
    stackless.tasklet(customer)("Ada", account, [5, -20])
    stackless.tasklet(customer)("Bob", account, [-8, -8])
    stackless.run()


if __name__ == "__main__":
    main()
