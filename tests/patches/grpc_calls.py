"""grpcio under the patch, with a server in the same process: ``python -m tests.patches.grpc_calls``.

Prints JSON: for each kind of call its results, and the longest pause of a ticker meanwhile.
"""

import contextlib
import faulthandler
import json
import threading
import time
from concurrent import futures

from syncless.patches import patch_all

patch_all()

import grpc  # noqa: E402

import syncless  # noqa: E402
from tests.patches.stalls import Ticker  # noqa: E402

CALLS = 50
WAIT = 0.2


def unary(request, context):
    time.sleep(WAIT)
    return request


def stream(request, context):
    for number in range(5):
        time.sleep(WAIT / 5)
        yield request + b"%d" % number


def both(requests, context):
    for request in requests:
        time.sleep(WAIT / 5)
        yield request


ended: dict[str, threading.Event] = {}
"""Set when the server has seen the end of a call that it does not answer, by its name."""
begun: dict[str, threading.Event] = {}


def note(name, context):
    context.add_callback(ended[name].set)
    begun[name].set()


def never(request, context):
    note("never", context)
    ended["never"].wait()


def silent(request, context):
    note("silent", context)
    ended["silent"].wait()
    yield b""


def endless(request, context):
    note("endless", context)
    while not ended["endless"].wait(WAIT / 20):
        yield request


def broken_off(channel, how):
    """Which calls the server sees end when the client's tasklet has been killed, or its time is over."""

    def ask(name):
        kind = channel.unary_unary if name == "never" else channel.unary_stream
        answers = kind(f"/test/{name}")(b"x")
        for _ in answers:
            pass

    def ask_in_time(name):
        with contextlib.suppress(TimeoutError):
            ask(name)

    found = {}
    for name in ("never", "silent", "endless"):
        begun[name], ended[name] = threading.Event(), threading.Event()
        tasklet = syncless.spawn(ask if how == "killed" else ask_in_time, name)
        begun[name].wait(60)
        tasklet.kill() if how == "killed" else tasklet.kill(TimeoutError())
        del tasklet  # it knows where it was killed, and so keeps the call
        found[name] = ended[name].wait(60)
    return found


class Handler(grpc.GenericRpcHandler):
    kinds = {
        "/test/never": grpc.unary_unary_rpc_method_handler(never),
        "/test/silent": grpc.unary_stream_rpc_method_handler(silent),
        "/test/endless": grpc.unary_stream_rpc_method_handler(endless),
        "/test/unary": grpc.unary_unary_rpc_method_handler(unary),
        "/test/stream": grpc.unary_stream_rpc_method_handler(stream),
        "/test/both": grpc.stream_stream_rpc_method_handler(both),
    }

    def service(self, details):
        return self.kinds.get(details.method)


def side_by_side(call):
    """The results of as many threads, the seconds that they took, and the ticker's longest pause."""
    found, ticker = [], Ticker()
    threads = [threading.Thread(target=lambda: found.append(call())) for _ in range(CALLS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"results": found, "seconds": time.perf_counter() - started, "worst": ticker.worst}


def main():
    faulthandler.dump_traceback_later(40, exit=True)
    server = grpc.server(futures.ThreadPoolExecutor(CALLS), handlers=(Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    told = {}
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ticker = Ticker()
        grpc.channel_ready_future(channel).result(60)
        told["ready"] = {"worst": ticker.worst}
        call = channel.unary_unary("/test/unary")
        call(b"the first call loads and computes")
        told["unary"] = side_by_side(lambda: call(b"x").decode())
        told["future"] = side_by_side(lambda: call.future(b"x").result().decode())
        told["stream"] = side_by_side(lambda: b" ".join(channel.unary_stream("/test/stream")(b"x")).decode())
        items = [b"1", b"2", b"3"]
        told["both"] = side_by_side(
            lambda: b" ".join(channel.stream_stream("/test/both")(iter(items))).decode()
        )
        victim = syncless.spawn(call, b"x")
        syncless.sleep(WAIT / 4)
        victim.kill()
        told["killed"] = type(victim.exception()).__name__
        try:
            call(b"x", timeout=WAIT / 4)
        except grpc.RpcError as error:
            told["late"] = error.code().name
        told["broken off"] = {how: broken_off(channel, how) for how in ("killed", "late")}
        told["after"] = call(b"x").decode()
    ticker = Ticker()
    told["stopped"] = {"ended": server.stop(None).wait(60), "worst": ticker.worst}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
