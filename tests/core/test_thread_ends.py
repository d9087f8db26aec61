"""When a thread ends its tasklets are killed: nobody waits for them in vain, and nothing is given to them."""

import random
import sys
import threading

import pytest

import syncless
from syncless import AsyncResult, Channel, TaskletExit, TaskletKilled, join_all, select, sending, spawn
from syncless.stackless import channel
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def in_a_thread_that_ends(body):
    """Runs the function in an OS thread, while the tasklets here go on."""
    thread = threading.Thread(target=body)
    thread.start()
    syncless.run_in_thread(thread.join)


def test_their_finally_blocks_run_and_their_joiners_go_on():
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


def test_new_tasklets_of_an_ended_thread_never_begin():
    begun = []
    made = []
    in_a_thread_that_ends(lambda: made.append(spawn(begun.append, 1)))
    assert made[0].done() and not begun


def test_tasklet_that_refuses_to_end_does_not_hold_the_thread():
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


@pytest.mark.virtual_time(False)  # threads that never wait
@pytest.mark.parametrize("seed", range(4))
def test_values_handed_over_to_them_go_to_others(seed):
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
                if (
                    queue.qsize() < 5 and semaphore.value < 5
                ):  # else who takes from them would never have to wait, nor let others run
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


def cleans_up_for_ever():
    """Ends with its thread while it still waits."""
    try:
        syncless.sleep(1000)
    finally:
        syncless.sleep(1000)


@pytest.mark.parametrize("when", ["before", "after"])
def test_tasklets_that_still_wait_when_their_thread_ends_have_ended(when):
    """For all that wait for their end, whether they begin to wait before it or after it."""
    made, told, linked, go = [], [], AsyncResult(), syncless.Event()

    def body():
        made.append(spawn(cleans_up_for_ever))
        made[0].add_done_callback(told.append)
        made[0].add_done_callback(linked)
        syncless.sleep(0)
        go.wait()

    def waits():
        assert eventually(lambda: made)
        return [
            spawn(made[0].join, 5),
            spawn(join_all, made, 5),
            spawn(syncless.wait, made, 5),
            spawn(lambda: list(syncless.iwait(made, 5))),
            spawn(select, made, 5),
            spawn(made[0].exception, 5),
            spawn(linked.wait, 5),
            spawn(killed, made[0]),
        ]

    def killed(tasklet):
        with pytest.raises(TaskletKilled):
            tasklet.result(5)
        return True

    if when == "before":
        starting = spawn(lambda: (waits(), syncless.sleep(0), go.set())[0])
    else:
        go.set()
    in_a_thread_that_ends(body)
    waiting = starting.result() if when == "before" else waits()
    results = [tasklet.result(5) for tasklet in waiting]
    assert results == [True, made, made, made, (0, None), made[0].exception(), True, True]
    assert told == made and made[0].done() and not made[0].successful()
    assert isinstance(made[0].exception(), TaskletExit) and isinstance(linked.exception, TaskletKilled)


def test_the_main_tasklet_of_a_thread_ends_with_it():
    made = []
    in_a_thread_that_ends(lambda: made.append(syncless.current()))
    assert made[0].join(5) and made[0].result(5) is None


def test_thread_is_free_although_a_callback_waits_or_fails(reports):
    made, told = [], []

    def waits(tasklet):
        syncless.sleep(1000)

    def spawns(tasklet):
        spawn(told.append, "never")

    def body():
        made.append(spawn(cleans_up_for_ever))
        for callback in (waits, spawns, told.append):
            made[0].add_done_callback(callback)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert told == made and [type(error) for _, error in reports] == [RuntimeError] * 2


def test_nothing_is_spawned_in_a_thread_that_ends():
    loops, refused = [], []

    def last_words():
        try:
            syncless.sleep(1000)
        finally:
            with pytest.raises(RuntimeError, match="has ended"):
                syncless.spawn_in(loops[0], refused.append, "never")
            with pytest.raises(LookupError):
                syncless.spawn_in(threading.get_ident(), refused.append, "never")
            refused.append("refused")

    def body():
        loops.append(syncless.current_loop())
        spawn(last_words)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert refused == ["refused"]
    with pytest.raises(RuntimeError, match="has ended"):
        syncless.spawn_in(loops[0], refused.append, "never")


def test_tasklets_of_last_words_end_too():
    said, made = [], []

    def lasts():
        try:
            said.append("begins")
            syncless.sleep(1000)
        finally:
            said.append("ends")

    def last_words():
        try:
            syncless.sleep(1000)
        finally:
            made.append(spawn(lasts))

    def body():
        spawn(last_words)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert said == ["begins", "ends"] and made[0].join(5)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_thread_that_ends_takes_no_turns_from_others(kind, reports):
    said = []

    def interrupts():
        try:
            syncless.sleep(1000)
        finally:
            raise kind

    def lasts():
        try:
            syncless.sleep(1000)
        finally:
            for number in range(20):
                syncless.sleep(0)
                said.append(number)

    def body():
        spawn(interrupts)
        spawn(lasts)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert said == list(range(20))
    assert [type(error) for _, error in reports] == [KeyboardInterrupt] * (kind is KeyboardInterrupt)


@pytest.mark.parametrize("kind", [Channel, channel])
@pytest.mark.parametrize("stubborn", [False, True])
def test_ended_tasklets_do_not_count_in_a_channel(kind, stubborn):
    pipe, other = kind(), kind()

    def keeps_waiting(wait):
        try:
            wait()
        except TaskletExit:
            if stubborn:
                wait()
            raise

    def body():
        alone = syncless.Event()
        waits = [
            pipe.receive,
            lambda: select([pipe, alone]),
            lambda: other.send(1),
            lambda: select([sending(other, 2), alone]),
        ]
        for wait in waits:
            spawn(keeps_waiting, wait)
        syncless.sleep(0)
        assert (pipe.balance, other.balance) == (-2, 2)

    in_a_thread_that_ends(body)
    assert (pipe.balance, other.balance) == (0, 0)
    assert select([other, sending(pipe, 1)], timeout=0) == (None, None)


def test_value_handed_over_in_the_last_turn_comes_back():
    queue, pipe, semaphore = syncless.Queue(), Channel(), syncless.Semaphore(0)

    def stubborn(wait):
        while True:
            try:
                wait()
            except TaskletExit:
                pass

    def feeds():
        try:
            syncless.sleep(1000)
        finally:
            for _ in range(1000):  # until the very end
                if queue.empty() and semaphore.value == 0 and pipe.balance < 0:
                    put.append(len(put))
                    queue.put(put[-1])
                    semaphore.release()
                    pipe.send(put[-1])
                syncless.sleep(0)

    put, got, sent, permits = [], [], [], []

    def body():
        spawn(stubborn, lambda: got.append(queue.get()))
        spawn(stubborn, lambda: sent.append(pipe.receive()))
        spawn(stubborn, lambda: permits.append(semaphore.acquire()))
        spawn(feeds)
        syncless.sleep(0)

    in_a_thread_that_ends(body)
    assert len(put) > 30
    while not queue.empty():
        got.append(queue.get())
    while pipe.balance > 0:
        sent.append(pipe.receive())
    assert got == sent == put and len(permits) + semaphore.value == len(put) and pipe.balance == 0
