"""Crashes: a function is killed at each of its waits in turn, also where it need not wait."""

from tests.programs import check, run_unchecked
from tests.testing.test_schedules import run


def test_each_wait_is_a_point_and_the_last_run_ends():
    check("""
    import threading, time
    from syncless.testing import crash_points, virtual_time
    def work():
        time.sleep(5)
        with lock:
            done.append(1)
            time.sleep(5)
        done.append(2)
    done, lock, lines = [], threading.Lock(), []
    with virtual_time():
        began = time.monotonic()
        for number, point in enumerate(crash_points(work), 1):
            assert not lock.locked() and point.number == number, point
            lines.append(point.line)
        assert time.monotonic() - began == 0 + 5 + 5 + 10
    assert len(lines) == 4 and lines[3] is None and done == [1, 1, 2], (lines, done)
    assert "waits for sleep" in lines[0] and "may let others run" in lines[1], lines
    """)


def test_a_lock_that_is_left_held_is_seen(tmp_path):
    program = """
from syncless.testing import crash, crash_points

def transfer(lock):
    lock.acquire()
    time.sleep(0)
    lock.release()

def first():
    lock = threading.Lock()
    for point in crash_points(transfer, lock):
        assert not lock.locked(), point

try:
    first()
except AssertionError as error:
    print(error)
point = crash(transfer, 1, threading.Lock())
print(point)
print(crash(transfer, 9, threading.Lock()))
"""
    lines = run(program, tmp_path).splitlines()
    assert lines == [
        "point 2: program.py:42 may let others run: time.sleep(0)",
        "point 1: program.py:41 may let others run: lock.acquire()",
        "point 9: not reached, the function has ended",
    ]


def test_what_it_waits_for_goes_to_others():
    check("""
    import queue, threading
    import syncless
    from syncless.testing import crash
    items = queue.Queue()
    late = syncless.spawn(lambda: (syncless.sleep(0.01), items.put(1)))
    point = crash(lambda: items.get(timeout=5), 2)  # point 1 is before it knows that it waits
    assert "waits for" in point.line, point
    assert items.get() == 1, "the killed one has not taken it"
    """)


def test_errors_and_kills_of_its_own():
    check("""
    import syncless, time
    from syncless.testing import crash, crash_points
    def fail():
        time.sleep(0)
        raise KeyError(1)
    try:
        list(crash_points(fail))
    except KeyError:
        pass
    else:
        raise AssertionError
    def spoil():
        try:
            time.sleep(0)
        except BaseException:
            raise ValueError
    try:
        crash(spoil, 1)
    except ValueError:
        pass
    else:
        raise AssertionError
    survived = []
    def survive():
        for _ in range(3):
            try:
                time.sleep(0)
            except syncless.TaskletExit:
                survived.append(1)
    assert [each.number for each in crash_points(survive)] == [1, 2, 3, 4] and len(survived) == 3
    try:
        crash(survive, 0)
    except ValueError as error:
        assert "numbered from 1" in str(error)
    assert len(syncless.tasklets()) == 1
    """)


def test_crashes_under_schedules_repeat(tmp_path):
    program = """
from syncless.testing import crash_points

def transfer(account, log):
    with lock:
        account["a"] -= 1
        log.put("took")
        account["b"] += 1

lock = threading.Lock()

def test():
    account, log = {"a": 1, "b": 1}, queue.Queue()
    adding = threading.Thread(target=lambda: log.put("other"))
    adding.start()
    for point in crash_points(transfer, account, log):
        assert not lock.locked(), point
        assert account["a"] + account["b"] == 2, point
    adding.join()

found = search(test)
assert found.failed
print(found.last.error)
lines = {"\\n".join(search(test, seed=found.seed).last.interleaving.lines) for _ in range(10)}
assert len(lines) == 1
print(*lines)
"""
    first = run(program, tmp_path)
    assert first.startswith("point 2: program.py:") and 'log.put("took")' in first, first
    assert run(program, tmp_path) == first


def test_shielded_waits_are_no_points():
    check("""
    import time
    from syncless._core.current import uninterrupted
    from syncless.testing import crash_points
    closed = []
    def work():
        time.sleep(0)
        uninterrupted(time.sleep, 0)
        closed.append(1)
    assert [each.number for each in crash_points(work)] == [1, 2] and closed == [1]
    """)


def test_a_process_without_the_patch_is_told():
    program = """
from syncless.testing import crash
try:
    crash(print, 1)
except RuntimeError as error:
    print(error)
"""
    assert (
        run_unchecked(program).stdout == "crashes need the patch: call syncless.patches.patch_all() first\n"
    )
