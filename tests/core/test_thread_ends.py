"""When a thread ends its tasklets are killed: nobody waits for them in vain, and nothing is given to them."""

import random
import sys
import threading

import pytest

import syncless
from syncless import TaskletKilled, spawn
from tests.waiting import eventually


def in_a_thread_that_ends(body):
    """Runs the function in an OS thread, while the tasklets here go on."""
    thread = threading.Thread(target=body)
    thread.start()
    syncless.run_in_thread(thread.join)


def test_their_last_words_are_heard_and_who_joins_them_is_told():
    said, made = [], {}
    joined = syncless.Event()

    def waits():
        try:
            syncless.sleep(1000)
        finally:
            syncless.sleep(0)  # they may switch, but not wait for a time
            said.append(threading.get_ident())

    def body():
        tasklet = spawn(waits)
        syncless.sleep(0)
        made.update(parked=tasklet, new=spawn(said.append, "never"), id=threading.get_ident())
        joined.wait()

    def joins():
        assert eventually(lambda: made)
        spawn(joined.set)
        return made["parked"].join()

    joining = spawn(joins)
    in_a_thread_that_ends(body)
    assert joining.result() and said == ["never", made["id"]]
    with pytest.raises(TaskletKilled):
        made["parked"].result()


def test_what_has_not_begun_never_begins():
    begun = []
    made = []
    in_a_thread_that_ends(lambda: made.append(spawn(begun.append, 1)))
    assert made[0].done() and not begun


def test_who_refuses_to_end_does_not_hold_the_thread():
    made, tries = [], []

    def stubborn():
        while True:
            try:
                syncless.sleep(1000)
            except syncless.TaskletExit:
                tries.append(1)

    def body():
        made.append(spawn(stubborn))
        made.append(spawn(lambda: [tries.append(0)] and [syncless.sleep(0)] * 1000))
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert tries == [0, 1] and made[0].done() and made[1].done()


def test_an_error_of_theirs_is_reported(reports):
    def fails():
        try:
            syncless.sleep(1000)
        finally:
            raise KeyError("last words")

    def body():
        spawn(fails)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert [type(error) for _, error in reports] == [KeyError]


@pytest.mark.parametrize("stubborn", [False, True])
def test_nothing_is_given_to_them(stubborn):
    queue, channel, semaphore = syncless.Queue(), syncless.Channel(), syncless.Semaphore(0)
    waits = [queue.get, channel.receive, semaphore.acquire, lambda: syncless.select([queue, channel])]

    def keeps_waiting(wait):
        try:
            wait()
        except syncless.TaskletExit:
            if stubborn:
                wait()
            raise

    def body():
        for wait in waits:
            spawn(keeps_waiting, wait)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    queue.put("queued")
    semaphore.release()
    assert queue.get(timeout=1) == "queued" and semaphore.acquire(timeout=1)
    sender = spawn(channel.send, "sent")
    assert channel.receive(timeout=1) == "sent"
    sender.join()


@pytest.mark.parametrize("seed", range(4))
def test_what_they_were_given_is_given_to_others(seed):
    """Threads end at any moment; no item, no permit and no lock is lost with them."""
    dice, interval = random.Random(seed), sys.getswitchinterval()
    queue, semaphore, lock = syncless.Queue(), syncless.Semaphore(0), syncless.Lock()
    got, taken, made = [], [], []

    def gets():
        while True:
            got.append(queue.get())

    def acquires():
        while True:
            semaphore.acquire()
            taken.append(None)

    def selects():
        while True:
            number, value = syncless.select([queue, semaphore])
            (got, taken)[number].append(value)

    def locks():
        while True:
            with lock:
                syncless.sleep(0)

    def body(own):
        made.extend([spawn(own.choice([gets, acquires, selects, locks])) for _ in range(6)])
        for _ in range(own.randrange(60)):
            syncless.sleep(0 if own.random() < 0.8 else 0.0005)

    put = 0
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(20):
            threads = [threading.Thread(target=body, args=(random.Random(dice.random()),)) for _ in range(4)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                if queue.qsize() < 5 and semaphore.value < 5:  # else who takes from them would never have to wait, nor let others run
                    queue.put(put)
                    semaphore.release()
                    put += 1
                syncless.sleep(0.0001)
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert lock.acquire(timeout=1) and all(tasklet.join(1) for tasklet in made)
    while not queue.empty():
        got.append(queue.get())
    while semaphore.acquire(False):
        taken.append(None)
    assert sorted(got) == list(range(put)) and len(taken) == put
