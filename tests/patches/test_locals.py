"""threading.local under the patch: each thread has values of its own, in objects of before and after, and
they end with it."""

from tests.programs import check, run_unchecked

PROGRAM = """
import gc, threading, time, weakref
early = threading.local()
early.value = "main's, of before"
class Counted(threading.local):
    made = 0
    def __init__(self, start):
        type(self).made += 1
        self.count = start
counted = Counted(5)
class Thing: pass

import syncless
from syncless.patches import patch_all, unpatch
# it waits already when the patch is made
parked = syncless.spawn(lambda: (syncless.sleep(0.05), early.value)[1])
syncless.sleep(0)
patch_all()
late = threading.local()
late.value = "main's"
things, seen = [], []
def work(number):
    assert not hasattr(early, "value") and not hasattr(late, "value")
    assert counted.count == 5
    counted.count += number
    early.value = late.value = number
    thing = late.thing = Thing()
    things.append(weakref.ref(thing))
    del thing
    for _ in range(3):
        time.sleep(0.001 * (number % 3))
        assert early.value == late.value == number
        assert counted.count == 5 + number and things[number]() is late.thing
    seen.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sorted(seen) == list(range(50)), seen
assert early.value == "main's, of before" and late.value == "main's" and counted.count == 5
assert Counted.made == 51
assert [thing() for thing in things] == [None] * 50              # dropped with the thread
assert parked.result() == "main's, of before"                   # it has been the main thread's all along
def killed():
    late.thing = thing = Thing()
    things.append(weakref.ref(thing))
    del thing
    time.sleep(60)
tasklet = syncless.spawn(killed)
syncless.sleep(0)
assert things[-1]() is not None
tasklet.kill()
assert things[-1]() is None
def last_words():
    class Waits:
        def __del__(self):
            time.sleep(0.001)                                   # a destructor may wait, too
            seen.append("gone")
    late.thing = Waits()
syncless.spawn(last_words).join()
assert seen[-1] == "gone"
waiting = syncless.spawn(lambda: (setattr(late, "value", "its own"), time.sleep(0.02), late.value)[2])
syncless.sleep(0)
unpatch()
assert waiting.result() == "its own" and late.value == "main's"
assert syncless.spawn(lambda: late.value).result() == "main's"  # as it is without the patch
real = []
thread = threading.Thread(target=lambda: real.append(hasattr(late, "value")))
thread.start()
thread.join()
assert real == [False]
print("kept apart")
"""


def test_threads_have_values_of_their_own():
    done = run_unchecked(PROGRAM, "-X", "dev")
    assert done.stdout == "kept apart\n" and not done.stderr, done.stderr


def test_values_of_a_thread_are_dropped_before_those_that_join_it_go_on():
    check("""
    import threading, time
    here, told = threading.local(), []

    class Value:
        def __del__(self):
            told.append(threading.current_thread() is not threading.main_thread())
            time.sleep(0.001)
            told.append("dropped")

    def work():
        here.value = Value()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert told == [True, "dropped"], told
    """)
