"""The child of a fork, before and after the engine has seen to it."""

from tests.programs import run_python


def test_no_tasklet_of_the_parent_runs_in_what_others_do_first_in_a_child():
    assert (
        run_python("""
import os, sys

def take_turns():
    for _ in range(1000):
        sys.modules["syncless._core.current"].give_way()

os.register_at_fork(after_in_child=take_turns)  # called before syncless's own
import syncless

ran = set()
def tick():
    while True:
        ran.add(os.getpid())
        syncless.sleep(0)

syncless.spawn(tick)
syncless.sleep(0)
child = os.fork()
if not child:
    take_turns()
    os._exit(len(ran))
print(ran == {os.getpid()}, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
        == "True 1\n"
    )
