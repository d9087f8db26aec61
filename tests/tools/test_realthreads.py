"""RealThreadPoolExecutor: real OS threads for which tasklets wait."""

import concurrent.futures
import contextlib
import os
import threading

import pytest

import syncless
from syncless.threads import RealThreadPoolExecutor
from tests.programs import check, run_python
from tests.waiting import eventually


@contextlib.contextmanager
def held_calls(executor, number=1):
    """Futures of calls that wait, as C code does, until the block ends."""
    release = threading.Event()
    started = threading.Semaphore(0)

    def call():
        started.release()
        release.wait()
        return threading.get_ident()

    try:
        yield [executor.submit(call) for _ in range(number)], started
    finally:
        release.set()


def test_tasklets_go_on_while_calls_wait_in_c():
    with RealThreadPoolExecutor(4) as executor, held_calls(executor, 4) as (futures, started):
        waits = [syncless.spawn(future.result) for future in futures]
        for _ in range(4):
            syncless.run_in_thread(started.acquire)
        assert not any(future.done() for future in futures)
    idents = {waiting.result() for waiting in waits}
    assert len(idents) == 4 and threading.get_ident() not in idents


def test_exception_of_the_call_is_raised_and_keeps_no_cycle():
    with RealThreadPoolExecutor(1) as executor:
        future = executor.submit(int, "x")
        with pytest.raises(ValueError, match="invalid literal"):
            future.result()
        assert isinstance(future.exception(), ValueError)


def test_wait_for_a_result_may_time_out():
    with RealThreadPoolExecutor(1) as executor, held_calls(executor) as (futures, _):
        with pytest.raises(concurrent.futures.TimeoutError):
            futures[0].result(0.001)
        with pytest.raises(concurrent.futures.TimeoutError):
            futures[0].exception(0)


def test_call_that_has_not_begun_can_be_cancelled():
    called = []
    with RealThreadPoolExecutor(1) as executor, held_calls(executor) as (_, started):
        syncless.run_in_thread(started.acquire)
        future = executor.submit(called.append, 1)
        assert future.cancel() and future.cancelled()
    assert called == []


def test_shutdown_waits_for_calls_and_takes_no_more():
    executor = RealThreadPoolExecutor(2)
    assert list(executor.map(len, ["a", "bb", "ccc"])) == [1, 2, 3]
    with held_calls(executor) as (futures, _):
        ends = syncless.spawn(executor.shutdown)
        syncless.sleep(0)
        assert not ends.ready()
    ends.join()
    assert futures[0].done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(len, "")
    assert eventually(lambda: executor._pool._threads == 0)


def test_shutdown_may_cancel_calls_that_have_not_begun():
    executor = RealThreadPoolExecutor(1)
    with held_calls(executor, 3) as (futures, started):
        syncless.run_in_thread(started.acquire)
        executor.shutdown(wait=False, cancel_futures=True)
        assert [future.cancelled() for future in futures] == [False, True, True]


def test_threads_are_named_and_initialized_once():
    begun = []
    with RealThreadPoolExecutor(1, "worker", begun.append, (5,)) as executor:
        names = {executor.submit(lambda: threading.current_thread().name).result() for _ in range(3)}
    assert names == {"worker_0"} and begun == [5]
    assert eventually(lambda: "worker_0" not in [thread.name for thread in threading.enumerate()])


def test_failing_initializer_breaks_the_executor(caplog):
    executor = RealThreadPoolExecutor(1, initializer=int, initargs=("x",))
    with pytest.raises(concurrent.futures.BrokenExecutor):
        executor.submit(len, "").result()
    with pytest.raises(concurrent.futures.BrokenExecutor):
        executor.submit(len, "")
    assert "Exception in initializer" in caplog.text


def test_arguments_are_checked_as_the_standard_library_does():
    with pytest.raises(ValueError, match="max_workers"):
        RealThreadPoolExecutor(0)
    with pytest.raises(TypeError, match="initializer"):
        RealThreadPoolExecutor(1, initializer=5)


def test_child_of_a_fork_has_threads_of_its_own():
    with RealThreadPoolExecutor(1) as executor, held_calls(executor):
        child = os.fork()
        if child == 0:
            status = 9
            with contextlib.suppress(BaseException):
                status = executor.submit(len, "seven").result(60)
                executor.shutdown()
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


def test_calls_are_made_before_the_process_ends():
    assert (
        run_python("""
import ctypes
from syncless.threads import RealThreadPoolExecutor
executor = RealThreadPoolExecutor(1)
executor.submit(ctypes.CDLL(None).usleep, 1000)
executor.submit(print, "last")
""")
        == "last\n"
    )


def test_under_the_patch_threads_are_real_and_waits_park():
    check("""
        import concurrent.futures, ctypes, os, threading
        from syncless.threads import RealThreadPoolExecutor
        read = ctypes.CDLL(None).read
        pipe, end = os.pipe()
        def wait_in_c():
            return read(pipe, ctypes.create_string_buffer(1), 1), threading.get_native_id()
        with RealThreadPoolExecutor(4) as executor:
            futures = [executor.submit(wait_in_c) for _ in range(4)]
            assert concurrent.futures.wait(futures, 0.001).not_done == set(futures)
            writer = threading.Thread(target=os.write, args=(end, b"1234"))
            writer.start()
            done, left = concurrent.futures.wait(futures)
            assert len(done) == 4 and not left
            ended = [future.result() for future in concurrent.futures.as_completed(futures)]
        assert {count for count, _ in ended} == {1}
        assert threading.get_native_id() not in {thread for _, thread in ended}
    """)


def test_tasklets_and_real_threads_wait_for_one_another_by_locks_and_queues():
    check("""
        import asyncio, queue, syncless, threading
        from concurrent.futures import ThreadPoolExecutor
        from syncless.threads import RealThreadPoolExecutor
        here = threading.get_native_id()
        def apart():
            return threading.get_native_id() != here
        def started():
            found = []
            thread = threading.Thread(target=lambda: found.append(threading.get_native_id()))
            thread.start()
            thread.join()
            return found == [threading.get_native_id()]
        async def in_asyncio():
            return await asyncio.to_thread(apart)
        lock, event, condition = threading.Lock(), threading.Event(), threading.Condition()
        asked, answers = queue.Queue(), queue.Queue()
        def answer():
            with condition:
                condition.wait_for(event.is_set)
            with lock:
                answers.put(asked.get() + 1)
        def ask():
            with lock:
                event.set()
                with condition:
                    condition.notify()
                asked.put(1)
            return answers.get()
        with RealThreadPoolExecutor(2) as real, ThreadPoolExecutor(2) as tasklets:
            assert real.submit(apart).result() and syncless.run_in_thread(apart)
            assert asyncio.run(in_asyncio()) and real.submit(started).result()
            assert not tasklets.submit(apart).result() and started()
            for first, second in ((real, tasklets), (tasklets, real)):
                event.clear()
                futures = [first.submit(answer), second.submit(ask)]
                assert [future.result(60) for future in futures] == [None, 2]
    """)
