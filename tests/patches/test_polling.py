"""select.select() and select.poll(), mostly where the system has no epoll, as on macOS and the BSDs."""

import select

import pytest

from tests.programs import check, run_unchecked

SETUP = """
import os, select, socket, sys, time
for name in [name for name in dir(select) if name.startswith("epoll") or name.startswith("EPOLL")]:
    delattr(select, name)
from syncless.patches import patch_all
patch_all()
import syncless
left, right = os.pipe()
ticks = 0
def tick():
    global ticks
    while True:
        syncless.sleep(0.002)
        ticks += 1
syncless.spawn(tick)
def ask_select(seconds):
    return select.select([left], [], [], seconds)[0] == [left]
def ask_poll(seconds, events=select.POLLIN):
    polled = select.poll()
    polled.register(left, events)
    return polled.poll(None if seconds is None else 1000 * seconds) == [(left, select.POLLIN)]
def ask_default(seconds):
    return ask_poll(seconds, select.POLLIN | select.POLLPRI)
"""


@pytest.mark.parametrize("backend", ["poll", "select"])
@pytest.mark.parametrize("ask", ["ask_select", "ask_poll", "ask_default"])
def test_wait_lasts_until_a_descriptor_is_ready_or_the_time_is_over(ask, backend):
    done = run_unchecked(f"""
import os
os.environ["SYNCLESS_LOOP"] = "{backend}"
{SETUP}
ask = {ask}
began = time.monotonic()
assert not ask(0.1)
assert time.monotonic() - began >= 0.099 and ticks > 0  # whose time is over first
for seconds in (None, 60):
    syncless.spawn(lambda: (syncless.sleep(0.05), os.write(right, b"x")))
    assert ask(seconds)
    assert os.read(left, 1) == b"x"
print("waited")
""")
    assert done.stdout == "waited\n", done.stderr


def test_reader_that_comes_too_late_waits_for_the_next_event():
    done = run_unchecked(f"""
{SETUP}
def read():
    assert ask_select(60)
    return os.read(left, 1)
readers = [syncless.spawn(read) for _ in range(2)]
for _ in range(2):
    syncless.sleep(0.02)
    os.write(right, b"x")
syncless.join_all(readers)
print("one each", os.set_blocking(left, False) or ask_select(0))
""")
    assert done.stdout == "one each False\n", done.stderr


def test_wrong_arguments_are_told_as_by_the_interpreter():
    program = """
import select
told = []
for call in (lambda: select.select(), lambda: select.select([], []), lambda: select.select(5, [], []),
             lambda: select.select([], [], None, 1), lambda: select.select(["x"], [], []),
             lambda: select.select([], [], [], "x"), lambda: select.select([], [], [], -1)):
    try:
        call()
    except Exception as error:
        told.append(repr(error).replace("select expected at least 3 arguments, got ", "select() "))
print([words if "select() " not in words else "select()" for words in told])
"""
    plain = run_unchecked(program).stdout
    assert run_unchecked("from syncless.patches import patch_all; patch_all()" + program).stdout == plain


def test_lists_without_a_descriptor_are_a_pause():
    done = run_unchecked(f"""
{SETUP}
assert select.select([], [], [], 0.05) == ([], [], [])
assert select.poll().poll(50) == []
print("paused", ticks > 0)
""")
    assert done.stdout == "paused True\n", done.stderr


def test_urgent_data_is_seen():
    """The loop itself watches for no such event."""
    done = run_unchecked(f"""
{SETUP}
with socket.create_server(("127.0.0.1", 0)) as server:
    client = socket.create_connection(server.getsockname())
    served = server.accept()[0]
syncless.spawn(lambda: (syncless.sleep(0.05), client.send(b"!", socket.MSG_OOB)))
assert select.select([], [], [served], 60) == ([], [], [served])
assert served.recv(1, socket.MSG_OOB) == b"!"
print("urgent")
""")
    assert done.stdout == "urgent\n", done.stderr


@pytest.mark.parametrize(
    "wait",
    [
        "select.select([left], [], [])",
        "polled(select.poll()).poll()",
        pytest.param(
            "polled(select.epoll()).poll()",
            marks=pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll"),
        ),
    ],
)
def test_timeout_that_is_thrown_is_not_the_end_of_its_own_time(wait):
    check(f"""
        import os, select, syncless
        left, right = os.pipe()
        def polled(poll):
            poll.register(left, select.POLLIN)
            return poll
        syncless.set_error_handler(lambda *ended: None)
        waiting = syncless.spawn(lambda: {wait})
        syncless.sleep(0)
        waiting.kill(TimeoutError("thrown"), block=False)
        assert str(waiting.exception(60)) == "thrown"
    """)
