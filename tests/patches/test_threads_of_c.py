"""Threads whose function is one of C: a library's waits where it cannot park, and has an OS thread."""

import textwrap

import pytest

from tests.programs import run_python

PATCHED = """
from syncless.patches import patch_all
patch_all()
import ctypes, threading, time
"""


def run(program: str) -> str:
    return run_python(PATCHED + textwrap.dedent(program))


def test_thread_that_waits_in_c_holds_up_nobody():
    """It ends only when another has run."""
    assert (
        run("""
        libc = ctypes.CDLL(None, use_errno=True)
        import os
        end, other_end = os.pipe()
        def read(function, *args):
            buffer = ctypes.create_string_buffer(1)
            args = (*args, end, buffer, ctypes.c_size_t(1))
            thread = threading.Thread(target=function, args=args, name="reader")
            thread.start()
            assert thread.is_alive() and thread in threading.enumerate() and thread.name == "reader"
            time.sleep(0)
            os.write(other_end, b"x")
            thread.join()
            assert not thread.is_alive() and buffer.raw == b"x"
        import functools
        read(libc.read)
        read(functools.partial(libc.read))
        print(threading.active_count())
    """)
        == "1\n"
    )


def test_such_a_thread_can_be_joined_with_a_limit_and_by_several():
    assert (
        run("""
        import os
        end, other_end = os.pipe()
        buffer = ctypes.create_string_buffer(1)
        waiting = threading.Thread(target=ctypes.CDLL(None).read, args=(end, buffer, ctypes.c_size_t(1)))
        waiting.start()
        waiting.join(0.01)
        assert waiting.is_alive()
        joined = []
        def join(): waiting.join(); joined.append(buffer.raw)
        others = [threading.Thread(target=join) for _ in range(3)]
        for each in others: each.start()
        time.sleep(0)
        assert not joined
        os.write(other_end, b"x")
        for each in others: each.join()
        print(joined)
    """)
        == "[b'x', b'x', b'x']\n"
    )


def test_program_waits_for_such_a_thread_at_its_end_unless_it_is_a_daemon():
    run("""
        import os
        end, other_end = os.pipe()
        usleep = ctypes.CDLL(None).usleep
        args = end, ctypes.create_string_buffer(1), ctypes.c_size_t(1)
        threading.Thread(target=ctypes.CDLL(None).read, args=args, daemon=True).start()
        threading.Thread(target=usleep, args=(20000,)).start()
    """)


def test_functions_of_the_standard_library_and_of_python_have_tasklets():
    assert (
        run("""
        import functools, queue, _thread
        from syncless.patches.threads import waits_in_c
        class Callable:
            def __call__(self): pass
            def method(self): pass
        class Thread(threading.Thread):
            def run(self): pass
        lock, items = threading.Lock(), []
        for target in (Callable(), Callable().method, lambda: None, functools.partial(lambda: None),
                items.append, print, time.sleep, lock.acquire, queue.SimpleQueue().get,
                threading.Event().wait, Callable, int):
            assert not waits_in_c(target), target
            assert not waits_in_c(threading.Thread(target=target)._bootstrap), target
        assert not waits_in_c(Thread(target=ctypes.CDLL(None).usleep)._bootstrap)
        idents = set()
        for target in (threading.get_native_id, lambda: threading.get_native_id()):
            made = threading.Thread(target=lambda: idents.add(target()))
            made.start(); made.join()
        assert idents == {threading.get_native_id()}
    """)
        == ""
    )


def test_grpc_aio_waits_in_a_thread_of_its_own():
    pytest.importorskip("grpc", reason="grpcio is not installed")
    assert run("""
        import asyncio, grpc
        from grpc import aio
        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                async def answer(request, context):
                    await asyncio.sleep(0.01)
                    return request
                return grpc.unary_unary_rpc_method_handler(answer)
        async def main():
            server = aio.server()
            server.add_generic_rpc_handlers((Handler(),))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                print(await channel.unary_unary("/x/U")(b"asked"))
            async with aio.insecure_channel("127.0.0.1:1") as channel:
                try:
                    await channel.unary_unary("/x/U")(b"asked", timeout=0.2)
                except aio.AioRpcError as error:
                    print(error.code().name)
            await server.stop(0)
        asyncio.run(main())
    """).split("\n")[:2] in (["b'asked'", "UNAVAILABLE"], ["b'asked'", "DEADLINE_EXCEEDED"])


@pytest.mark.parametrize(
    ("library", "program"),
    [
        (
            "watchfiles",
            """
            import os, tempfile, watchfiles
            with tempfile.TemporaryDirectory() as folder:
                found = []
                def look():
                    for changes in watchfiles.watch(folder, step=1, debounce=1):
                        found.extend(changes)
                        return
                thread = threading.Thread(target=look)
                thread.start()
                while not found:
                    open(os.path.join(folder, "new"), "w").close()
                    time.sleep(0.01)
                thread.join()
            """,
        ),
        (
            "zmq",
            """
            import os, zmq
            context = zmq.Context()
            ends = [context.socket(kind) for kind in (zmq.PULL, zmq.PUSH)]
            for number, each in enumerate(ends):
                each.bind(f"inproc://{number}")
            threading.Thread(target=lambda: zmq.proxy(*ends), daemon=True).start()
            push, pull = context.socket(zmq.PUSH), context.socket(zmq.PULL)
            push.connect("inproc://0"), pull.connect("inproc://1")
            push.send(b"through")
            while not pull.poll(0):
                time.sleep(0.01)
            assert pull.recv() == b"through"
            print("end", flush=True)
            os._exit(0)
            """,
        ),
        (
            "confluent_kafka",
            """
            import confluent_kafka
            broker = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}       # there is none
            consumer = confluent_kafka.Consumer(broker | {"group.id": "g"})
            consumer.subscribe(["topic"])
            assert consumer.poll(0) is None and not consumer.consume(2, 0)
            producer = confluent_kafka.Producer(broker)
            producer.produce("topic", b"never sent")
            producer.poll(0)
            assert producer.flush(0) == 1
            ended = []
            waits = [lambda: consumer.poll(0.3), lambda: producer.flush(timeout=0.3)]
            for wait in waits:
                threading.Thread(target=lambda wait=wait: (wait(), ended.append(1))).start()
            turns = 0
            while len(ended) < len(waits):
                assert turns or not ended, "a wait of C held the thread"
                time.sleep(0.01)
                turns += 1
            """,
        ),
    ],
)
def test_library_that_waits_in_c_in_a_thread_of_python_holds_up_nobody(library, program):
    pytest.importorskip(library, reason=f"{library} is not installed")
    run(program)
