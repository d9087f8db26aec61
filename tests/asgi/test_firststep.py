"""A coroutine that ends in its first step gets a task that the last one has left untouched. No application
can tell it from a task of its own."""

import asyncio
import contextvars
import gc
import inspect
import sys
import weakref

import pytest

import syncless
from tests.asgi.test_http import START, http, saying

pytestmark = pytest.mark.virtual_time

VAR = contextvars.ContextVar("var", default="unset")
kept = []
known = weakref.WeakKeyDictionary()


def naming(touch):
    """Answers what the task shows of an earlier request: nothing. Then touches it."""

    async def answer(scope, receive, send):
        task = asyncio.current_task()
        seen = [
            inspect.getcoroutinestate(task.get_coro()),
            task in asyncio.all_tasks(),
            (task in known, task in kept, getattr(task, "mine", None), VAR.get()),
            (task.done(), task.get_name() == "named", "RUNNING" in repr(task)),
        ]
        touch(task)
        del task
        await saying(repr(seen).encode())(scope, receive, send)

    return http(answer)


TOUCHES = {
    "nothing": lambda task: None,
    "kept": kept.append,
    "known": lambda task: known.update({task: 1}),
    "named": lambda task: task.set_name("named"),
    "marked": lambda task: setattr(task, "mine", 1),
    "context": lambda task: VAR.set("set"),
    "callback": lambda task: task.add_done_callback(lambda task: None),
}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_request_sees_nothing_of_the_task_before_it(start, touch):
    client = start.client(start(naming(touch)))
    answers = {client.get()[2] for _ in range(4)}
    kept.clear()
    assert answers == {b"['CORO_RUNNING', True, (False, False, None, 'unset'), (False, False, False)]"}


def test_task_that_somebody_keeps_comes_to_its_end(start):
    tasks, ended = [], []

    async def answer(scope, receive, send):
        tasks.append(asyncio.current_task())
        tasks[-1].add_done_callback(ended.append)
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    for _ in range(3):
        assert client.get()[2] == b"hello"
    syncless.sleep(0.01)
    assert ended == tasks and len(set(tasks)) == 3 and all(task.done() for task in tasks)


def test_no_task_is_listed_between_two_requests(start, background):
    client = start.client(start(saying()))
    before = asyncio.all_tasks(background)
    client.get()
    assert asyncio.all_tasks(background) == before


def test_task_of_a_request_that_waits_is_listed_until_its_end(start, background):
    event = asyncio.Event()
    tasks = []

    async def answer(scope, receive, send):
        tasks.append((asyncio.current_task(), inspect.getcoroutinestate(asyncio.current_task().get_coro())))
        await event.wait()
        tasks.append((asyncio.current_task(), inspect.getcoroutinestate(asyncio.current_task().get_coro())))
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    got = syncless.spawn(client.get)
    while not tasks:
        syncless.sleep(0)
    waiting = [task for task in asyncio.all_tasks(background) if task is tasks[0][0]]
    assert len(waiting) == 1 and inspect.getcoroutinestate(waiting[0].get_coro()) == "CORO_SUSPENDED"
    background.call_soon(event.set)
    assert got.result()[2] == b"hello"
    assert tasks[0] == tasks[1] and tasks[0][1] == "CORO_RUNNING"
    assert tasks[0][0].done() and tasks[0][0] not in asyncio.all_tasks(background)


async def cancel_and_wait(note):
    asyncio.current_task().cancel("why")
    try:
        await asyncio.sleep(0.01)
    except asyncio.CancelledError as error:
        note(f"cancelled {error.args}")
    note(asyncio.current_task().cancelling() if hasattr(asyncio.Task, "cancelling") else 1)


async def cancel_and_yield(note):
    asyncio.current_task().cancel()
    try:
        await asyncio.sleep(0)
        note("went on")
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        note("cancelled")


async def cancel_and_await_what_is_done(note):
    asyncio.current_task().cancel()
    future = asyncio.get_running_loop().create_future()
    future.set_result(1)
    note(await future)
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        note("cancelled")


async def cancel_in_time(note):
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)
    except asyncio.TimeoutError:
        note("timeout")


async def await_itself(note):
    try:
        await asyncio.current_task()
    except RuntimeError as error:
        note(type(error).__name__)


@pytest.mark.parametrize(
    "program",
    [cancel_and_wait, cancel_and_yield, cancel_and_await_what_is_done, cancel_in_time, await_itself],
)
def test_first_wait_is_that_of_any_task(start, program):
    expected, notes = [], []
    plain = asyncio.SelectorEventLoop()
    syncless.run_in_thread(plain.run_until_complete, program(expected.append))
    plain.close()

    async def answer(scope, receive, send):
        await program(notes.append)
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    client.get()
    assert notes == expected and expected
    notes.clear()
    client.get()
    assert notes == expected


def test_cancelled_task_that_does_not_wait_ends_cancelled(start, errors):
    tasks = []

    async def answer(scope, receive, send):
        if scope["path"] == "/cancel":
            tasks.append(asyncio.current_task())
            tasks[0].cancel()
            return
        await saying()(scope, receive, send)

    server = start(http(answer), error_log=errors)
    assert start.client(server).get("/cancel")[0] == 500
    assert tasks[0].cancelled()
    client = start.client(server)
    assert [client.get()[2] for _ in range(2)] == [b"hello"] * 2


def test_error_is_that_of_its_own_request(start, errors):
    async def answer(scope, receive, send):
        if scope["path"] == "/error":
            raise ValueError("of this request")
        await send(START)
        await send({"type": "http.response.body", "body": b"fine"})

    server = start(http(answer), error_log=errors)
    for _ in range(3):
        assert start.client(server).get("/error")[0] == 500
        assert start.client(server).get()[2] == b"fine"
    assert errors.getvalue().count("ValueError: of this request") == 3


def test_hooks_of_asynchronous_generators_are_those_of_the_loop_in_a_request_only(start, background):
    seen = []

    async def answer(scope, receive, send):
        seen.append(sys.get_asyncgen_hooks())
        await saying()(scope, receive, send)

    before = sys.get_asyncgen_hooks()
    client = start.client(start(http(answer)))
    for _ in range(3):
        client.get()
    hooks = background._asyncgen_firstiter_hook, background._asyncgen_finalizer_hook
    assert [tuple(each) for each in seen] == [hooks] * 3
    assert sys.get_asyncgen_hooks() == before


def test_spare_task_goes_silently(start, background):
    told = []
    background.set_exception_handler(lambda loop, context: told.append(context))
    server = start(saying())
    client = start.client(server)
    client.get()
    client.close()
    server.stop()
    del server
    gc.collect()
    background.set_exception_handler(None)
    assert told == []


def test_no_callback_is_called_while_a_task_is_made(start, background, monkeypatch):
    """What runs then may give way, such as a finaliser or the handler of a signal."""

    async def answer(scope, receive, send):
        await asyncio.sleep(0)
        await saying()(scope, receive, send)

    def get_debug(loop):
        if syncless.current() is not None:
            syncless.sleep(0)
        return False

    monkeypatch.setattr(type(background), "get_debug", get_debug, raising=False)
    server = start(http(answer))
    clients = [start.client(server) for _ in range(5)]
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert [client.response()[2] for client in clients] == [b"hello"] * 5
