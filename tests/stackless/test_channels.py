"""stackless.channel: rendezvous, preferences, closing, exceptions, threads."""

import pickle
import threading

import pytest

import syncless
import syncless.stackless as stackless
from tests.programs import run_unchecked

pytestmark = pytest.mark.virtual_time


def test_balance_and_queue():
    channel = stackless.channel()
    receivers = [stackless.tasklet(channel.receive)() for _ in range(2)]
    stackless.schedule()
    assert (
        channel.balance == -2
        and channel.queue is receivers[0]
        and receivers[0].next is receivers[1]
        and receivers[1].prev is receivers[0]
    )
    assert all(each.blocked and each.scheduled for each in receivers)
    for wrong in (receivers[0].insert, receivers[0].run, receivers[0].remove):
        with pytest.raises(RuntimeError, match="blocked"):
            wrong()
    channel.send(1)
    channel.send(2)
    assert channel.balance == 0 and channel.queue is None
    senders = [stackless.tasklet(channel.send)(number) for number in range(2)]
    stackless.schedule()
    assert channel.balance == 2 and [channel.receive(), channel.receive()] == [0, 1]
    stackless.run()
    assert not any(each.alive for each in senders)


@pytest.mark.parametrize(
    ("first", "preference", "order"),
    [
        ("receive", -1, ["receiving", "sending", "got", "sent"]),
        ("receive", 1, ["receiving", "sending", "sent", "got"]),
        ("receive", 0, ["receiving", "sending", "sent", "got"]),
        ("send", -1, ["sending", "receiving", "got", "sent"]),
        ("send", 1, ["sending", "receiving", "sent", "got"]),
        ("send", 0, ["sending", "receiving", "got", "sent"]),
    ],
)
def test_preference_when_the_first_waits(first, preference, order):
    log = []
    channel = stackless.channel()
    assert channel.preference == -1
    channel.preference = preference

    def receive():
        log.append("receiving")
        channel.receive()
        log.append("got")

    def send():
        log.append("sending")
        channel.send(1)
        log.append("sent")

    for each in (receive, send) if first == "receive" else (send, receive):
        stackless.tasklet(each)()
    stackless.run()
    assert log == order


def test_schedule_all():
    log = []
    channel = stackless.channel()
    channel.schedule_all = True
    stackless.tasklet(lambda: log.append(channel.receive()))()
    stackless.schedule()
    stackless.tasklet(log.append)("other")
    channel.send("sent")
    assert log == ["other", "sent"]
    channel.preference = 5
    assert channel.preference == 1
    with pytest.raises(TypeError):
        channel.preference = "x"


def test_exceptions_travel():
    channel = stackless.channel()
    for send in (
        lambda: channel.send_exception(ValueError, 1, 2),
        lambda: channel.send_throw(ValueError, (1, 2)),
        lambda: channel.send_throw(ValueError(1, 2)),
        lambda: channel.send(stackless.bomb(ValueError, (1, 2))),
    ):
        stackless.tasklet(send)()
        with pytest.raises(ValueError) as caught:
            channel.receive()
        assert caught.value.args == (1, 2)
    with pytest.raises(TypeError):
        channel.send_exception("x")
    stackless.run()


def test_sequences_and_iteration():
    channel = stackless.channel()
    got = []

    def send():
        assert channel.send_sequence(range(5)) == 5
        channel.close()

    stackless.tasklet(send)()
    for value in channel:
        got.append(value)
        if len(got) == 5:
            stackless.schedule()
    assert got == list(range(5)) and channel.closed


def test_closing():
    channel = stackless.channel()
    sender = stackless.tasklet(channel.send)("last")
    stackless.schedule()
    channel.close()
    assert channel.closing and not channel.closed and channel.receive() == "last" and channel.closed
    for use in (channel.receive, lambda: channel.send(1)):
        with pytest.raises(ValueError, match="closed"):
            use()
    channel.open()
    assert not channel.closing
    stackless.run()
    assert not sender.alive


def printed_by(program):
    """The output of a program in a process with one thread: another one could still use a channel."""
    program = "import syncless.stackless as stackless\nchannel = stackless.channel()\n" + program
    done = run_unchecked(program)
    assert not done.stderr, done.stderr
    return done.stdout


def test_deadlock_is_raised_in_the_tasklet_that_blocks_last():
    printed = printed_by("""
def blocks_last():
    try:
        stackless.channel().receive()
    except RuntimeError as error:
        print("other:", error)
    channel.send("done")

other = stackless.tasklet(blocks_last)()
other.name = "waits for godot"
print("main:", channel.receive())
assert channel.balance == 0
""")
    assert printed == (
        "other: Deadlock: the last runnable tasklet cannot be blocked. "
        "Blocked on channels: main, waits for godot\nmain: done\n"
    )


def test_the_last_one_cannot_be_paused_while_main_waits_for_a_channel():
    printed = printed_by("""
def pauses():
    try:
        stackless.schedule_remove()
    except RuntimeError as error:
        print(error)
    channel.send(1)

stackless.tasklet(pauses)()
channel.receive()
""")
    assert printed.startswith("Deadlock: the last runnable tasklet cannot be blocked.")


def test_uncaught_deadlock_reaches_the_main_tasklet():
    printed = printed_by("""
other = stackless.tasklet(stackless.channel().receive)()
try:
    channel.receive()
except RuntimeError as error:
    print(error)
assert not other.alive
""")
    assert "the last runnable tasklet cannot be blocked" in printed


@pytest.mark.parametrize("last", ["", "stackless.tasklet(int)()"])
def test_deadlock_is_raised_in_main_if_no_tasklet_blocks_after_it(last):
    printed = printed_by(f"""
early = stackless.tasklet(channel.receive)()
stackless.schedule()
for wait in (lambda: stackless.channel().receive(), lambda: stackless.channel().send(1)):
    {last}
    try:
        wait()
    except RuntimeError as error:
        print(error)
early.kill()
assert channel.balance == 0
""")
    names = [line.partition("Blocked on channels: ")[2] for line in printed.splitlines()]
    assert len(names) == 2 and all("main" in each and "channel.receive" in each for each in names), printed
    first, second = printed.splitlines()
    assert first.startswith("Deadlock: the main tasklet is receiving without a sender available.")
    assert second.startswith("Deadlock: the main tasklet is sending without a receiver available.")


def test_no_deadlock_while_a_timer_or_a_thread_may_come():
    channel = stackless.channel()
    stackless.tasklet(lambda: (syncless.sleep(0.05), channel.send("slept")))()
    assert channel.receive() == "slept"
    stackless.tasklet(lambda: channel.send(syncless.run_in_thread(lambda: "from a thread")))()
    assert channel.receive() == "from a thread"


def test_block_trap():
    me = stackless.getcurrent()
    me.block_trap = True
    try:
        with pytest.raises(RuntimeError, match="blocked"):
            stackless.channel().receive()
    finally:
        me.block_trap = False


def test_killed_while_blocked():
    channel = stackless.channel()
    tasklets = [stackless.tasklet(channel.receive)() for _ in range(3)]
    stackless.schedule()
    tasklets[1].kill()
    assert channel.balance == -2 and channel.queue is tasklets[0] and tasklets[0].next is tasklets[2]
    for each in tasklets:
        each.kill()
    assert channel.balance == 0


def test_channel_callback():
    seen = []
    channel = stackless.channel()
    stackless.set_channel_callback(lambda *action: seen.append(action))
    try:
        tasklet = stackless.tasklet(channel.receive)()
        stackless.schedule()
        channel.send(1)
    finally:
        assert stackless.set_channel_callback(None) is not None
    assert seen == [(channel, tasklet, False, True), (channel, stackless.getcurrent(), True, False)]
    assert stackless.get_channel_callback() is None


def test_between_threads():
    there, back = stackless.channel(), stackless.channel()
    errors = []

    def other():
        try:
            for _ in range(1000):
                back.send(there.receive() + 1)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    for number in range(1000):
        there.send(number)
        assert back.receive() == number + 1
    syncless.run_in_thread(thread.join)
    assert not errors


def test_pickling_and_repr():
    channel = stackless.channel()
    channel.preference, channel.schedule_all = 1, True
    copy = pickle.loads(pickle.dumps(channel))
    assert copy.preference == 1 and copy.schedule_all and "balance 0" in repr(channel)
    tasklet = stackless.tasklet(channel.receive)()
    stackless.schedule()
    with pytest.raises(TypeError):
        pickle.dumps(channel)
    tasklet.kill()


@pytest.mark.parametrize("preference", [-1, 0, 1])
@pytest.mark.parametrize("schedule_all", [False, True])
def test_a_callback_serves_a_waiter(preference, schedule_all):
    """It runs in no tasklet: it meets the first waiter, and goes on itself."""
    values, log = stackless.channel(), []
    values.preference, values.schedule_all = preference, schedule_all

    def callback(_):
        with stackless.atomic():
            values.send("first")
            values.send("second")
        assert log == [] and values.balance == 0
        with pytest.raises(RuntimeError, match="event loop itself cannot wait"):
            values.send("nobody waits")

    receivers = [stackless.tasklet(lambda: log.append(values.receive()))() for _ in range(2)]
    stackless.schedule()
    assert values.balance == -2
    ended = stackless.tasklet(int)()
    ended.add_done_callback(callback)
    stackless.run()
    assert sorted(log) == ["first", "second"] and not any(each.alive for each in receivers)


def test_clear_kills_the_tasklets_that_wait_in_order():
    ended = []
    channel = stackless.channel()

    def work(name, action, *args):
        try:
            action(*args)
        except stackless.TaskletExit:
            ended.append(name)

    for action, *args in ((channel.send, "value"), (channel.receive,)):
        for name in "abc":
            stackless.tasklet(work)(name, action, *args)
        stackless.run()
        assert abs(channel.balance) == 3
        channel.clear()
        assert channel.balance == 0 and ended == ["a", "b", "c"]
        ended.clear()


def test_clear_leaves_alone_a_tasklet_that_a_killed_one_has_met():
    channel = stackless.channel()
    received = []

    def first():
        try:
            channel.receive()
        finally:
            channel.send("from the killed one")

    for work in (first, lambda: received.append(channel.receive())):
        stackless.tasklet(work)()
    stackless.run()
    channel.clear()
    stackless.run()
    assert received == ["from the killed one"] and channel.balance == 0


def test_clear_drops_values_that_were_given_back_and_ends_a_select():
    channel = stackless.channel()
    receiver = stackless.tasklet(channel.receive)()
    stackless.run()
    channel.preference = 1
    channel.send("value")
    receiver.kill()
    assert channel.balance == 1
    channel.clear()
    assert channel.balance == 0
    selecting = syncless.spawn(syncless.select, [channel])
    stackless.schedule()
    assert channel.balance == -1
    channel.clear()
    assert channel.balance == 0 and selecting.done()
