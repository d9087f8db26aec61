"""sys._current_frames() and faulthandler.dump_traceback() show the threads that are tasklets."""

import pytest

from tests.programs import check, run_python

BEGIN = """
import faulthandler, sys, tempfile, threading, traceback
import syncless
go, there = threading.Event(), threading.Semaphore(0)
def waits():
    there.release()
    go.wait()
def functions(frame):
    return [each.name for each in traceback.extract_stack(frame)]
threads = [threading.Thread(target=waits, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
for _ in threads: there.acquire()
"""


def test_frames_of_waiting_threads_are_found_by_their_idents():
    check(f"""{BEGIN}
frames = sys._current_frames()
assert all("waits" in functions(frames[each.ident]) for each in threads)
here = frames[threading.main_thread().ident]
assert here is sys._getframe()
go.set()
for thread in threads: thread.join()
assert not {{each.ident for each in threads}} & set(sys._current_frames())
""")


@pytest.mark.parametrize("start", ["lambda call: threading.Thread(target=call).start()", "syncless.spawn"])
def test_thread_that_asks_finds_itself_and_the_main_thread(start):
    check(f"""{BEGIN}
asked, over = [], threading.Event()
def ask():
    frames = sys._current_frames()
    asked.append((frames[threading.get_ident()] is sys._getframe(),
        functions(frames[threading.main_thread().ident]), functions(frames[threads[0].ident])))
    over.set()
def main_waits():
    ({start})(ask)
    over.wait()
main_waits()
go.set()
(itself, main, other), = asked
assert itself and "main_waits" in main and "waits" in other and "ask" not in main + other, asked
""")


def test_os_thread_finds_all_while_the_loop_waits():
    check(f"""{BEGIN}
import os
from syncless.patches.stacks import current_frames
def ask():
    return {{number: functions(frame) for number, frame in current_frames().items()}}
def main_waits():
    return syncless.run_in_thread(ask)
frames = main_waits()
go.set()
assert "main_waits" in frames[threading.main_thread().ident], frames
assert all("waits" in frames[each.ident] for each in threads), frames
assert any("ask" in each for each in frames.values()), frames
""")


def test_dump_of_all_threads_has_those_that_wait():
    check(f"""{BEGIN}
with tempfile.TemporaryFile("w+") as file:
    faulthandler.dump_traceback(file)
    file.seek(0)
    text = file.read()  # since Python 3.14 with the name of an OS thread behind its number
    assert text.count(" in waits\\n") == 3 and all(f"0x{{each.ident:016x}} " in text for each in threads)
    assert text.count(f"0x{{threading.main_thread().ident:016x}} ") == 1, text
    file.truncate(0)
    faulthandler.dump_traceback(file, all_threads=False)
    file.seek(0)
    assert " in waits\\n" not in file.read()
go.set()
""")


def test_undo_gives_the_interpreters_own_back():
    run_python("""
import faulthandler, sys, threading
own = sys._current_frames, faulthandler.dump_traceback
from syncless.patches import patched
with patched():
    go = threading.Event()
    thread = threading.Thread(target=go.wait)
    thread.start()
    assert thread.ident in own[0]()
    go.set()
    thread.join()
assert (sys._current_frames, faulthandler.dump_traceback) == own and len(own[0]()) == 1
""")
