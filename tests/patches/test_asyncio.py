"""asyncio under the patch: whose loop runs is a tasklet's own affair."""

from tests.patches.programs import run_python


def test_child_forked_from_a_running_loop_may_run_one():
    """Also after it has waited."""
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import asyncio, os, time
async def answer():
    await asyncio.sleep(0)
    return 5
async def main():
    await asyncio.sleep(0)
    child = os.fork()
    if child == 0:
        time.sleep(0.001)
        os._exit(asyncio.run(answer()))
    time.sleep(0.001)
    assert asyncio.get_running_loop() is not None
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(asyncio.run(main()))
""")
        == "5\n"
    )


def test_patching_inside_a_running_loop():
    """As in a notebook: threads that are started from then on may run loops of their own, and this one stays
    noted."""
    assert (
        run_python("""
import asyncio, threading, time
async def answer():
    await asyncio.sleep(0.01)
    return 5
async def main():
    from syncless.patches import patch_all
    patch_all()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(asyncio.run(answer())))
    thread.start()
    thread.join()
    await asyncio.sleep(0.01)
    return seen, asyncio.get_running_loop() is not None
print(asyncio.run(main()))
""")
        == "([5], True)\n"
    )
