"""Functions and methods that a program has kept before the patch call the cooperative ones, wherever they are
kept, and the originals again when the patch is undone."""

import gc
import re

import pytest

from tests.programs import run_python

KEEPS = """
import functools, itertools, os, select, signal, socket, subprocess, sys, threading, time
from _queue import SimpleQueue
from time import sleep

SHORT = 0.002
wanted = []
held = threading.Lock(); held.acquire()
one, other_end = socket.socketpair()
one.settimeout(SHORT)
end, other_end_of_file = os.pipe()
file = open(end, "rb", buffering=0)
silent, never = os.pipe()

class Class:
    nap = time.sleep
    static = staticmethod(time.sleep)
class Slots:
    __slots__ = ("nap",)
slots = Slots(); slots.nap = time.sleep
def default(call=time.sleep): call(SHORT)
def keyword(*, call=time.sleep): call(SHORT)
def closure():
    call = time.sleep
    return lambda: call(SHORT)
class Receiver(socket.socket):
    get = socket.socket.recv
    def receive(self):
        self.settimeout(SHORT)
        self.get(1)
def of_another(acquire):
    rlock = threading.RLock()
    thread = threading.Thread(target=rlock.acquire)
    thread.start(); thread.join()
    acquire(rlock, timeout=SHORT)
stored = {
    "global": lambda: sleep(SHORT),
    "class": lambda: Class.nap(SHORT),
    "instance": lambda: Class().nap(SHORT),         # a built-in function does not bind
    "static": lambda: Class.static(SHORT),
    "slot": lambda: slots.nap(SHORT),
    "default": default,
    "keyword": keyword,
    "partial": functools.partial(time.sleep, SHORT),
    "cache": lambda cached=functools.lru_cache(time.sleep): (cached.cache_clear(), cached(SHORT)),
    "closure": closure(),
    "tuple": lambda calls=(time.sleep,): calls[0](SHORT),
    "map": functools.partial(next, map(time.sleep, itertools.repeat(SHORT))),
    "select.select": lambda call=select.select: call([silent], [], [], SHORT),
    "signal.sigtimedwait": lambda call=signal.sigtimedwait: call([signal.SIGUSR2], SHORT),
    "os.system": lambda call=os.system: call("sleep 0.01"),
    "lock.acquire": lambda call=held.acquire: call(timeout=SHORT),
    "SimpleQueue.get": lambda call=SimpleQueue().get: call(timeout=SHORT),
    "socket.recv": lambda call=one.recv: call(1),
    "file.read": lambda call=file.read: (wanted.append(1), call(1)),
    "epoll.poll": lambda call=select.epoll().poll: call(SHORT),
    "poll.poll": lambda call=select.poll().poll: call(1),
    "Lock.acquire, without its lock": lambda call=type(held).acquire: call(held, timeout=SHORT),
    "RLock.acquire, without": functools.partial(of_another, type(threading.RLock()).acquire),
    "SimpleQueue.get, without": lambda call=SimpleQueue.get: call(SimpleQueue(), timeout=SHORT),
    "socket.recv, without": lambda call=socket.socket.recv: call(one, 1),
    "FileIO.read, without": lambda call=type(file).read: (wanted.append(1), call(file, 1)),
    "epoll.poll, without": lambda call=select.epoll.poll: call(select.epoll(), SHORT),
    "poll.poll, without": lambda call=type(select.poll()).poll: call(select.poll(), 1),
    "a method of a class": lambda: Receiver(fileno=os.dup(one.fileno())).receive(),
}
"""

TURNS = """
import syncless
def turns(call):
    "Of another tasklet, meanwhile."
    count = 0
    def other():
        nonlocal count
        while True:
            count += 1
            if count == 9 and wanted:
                os.write(other_end_of_file, b"x" * wanted.pop())
            syncless.sleep(0)
    tasklet = syncless.spawn(other)
    try:
        call()
    except Exception as error:
        assert type(error).__name__ in ("TimeoutError", "Empty"), error
    tasklet.kill()
    return count
def lets_others_run(call):
    "The time of a short wait may be over before it begins, on a busy machine."
    return any(turns(call) for _ in range(5))
"""


def test_what_was_kept_before_the_patch_lets_others_run():
    stored = run_python(f"""{KEEPS}
from syncless.patches import patch_all
patch_all()
{TURNS}
print(len(stored), *(name for name, call in stored.items() if not lets_others_run(call)))
""")
    assert re.fullmatch(r"29\n", stored)


def test_what_was_kept_is_the_original_again_when_the_patch_is_undone():
    """And once more the other, when it is made again."""
    stored = run_python(f"""{KEEPS}
from syncless.patches import patched
for _ in range(3):
    with patched():
        pass
{TURNS}
would_wait_for_ever = [(name, stored.pop(name)) for name in ("file.read", "FileIO.read, without")]
print(*(name for name, call in stored.items() if turns(call)))
stored.update(would_wait_for_ever)
with patched():
    print(*(name for name, call in stored.items() if not lets_others_run(call)))
""")
    assert stored == "\n\n"


def test_function_stays_the_same_object_with_its_name_text_and_signature():
    print_all = """
for function in (time.sleep, os.stat, os.open, select.select, _thread.start_new_thread, signal.signal,
        socket.getaddrinfo, threading.current_thread):
    try:
        signature = inspect.signature(function)
    except ValueError:
        signature = None
    text = (function.__name__, function.__qualname__, function.__module__, function.__doc__, signature)
    print(*text, pickle.loads(pickle.dumps(function)) is function, os.stat in os.supports_fd)
"""
    found = run_python(f"""
import _thread, inspect, os, pickle, select, signal, socket, threading, time
kept = time.sleep, os.stat
{print_all}
print("patched")
from syncless.patches import patch_all, unpatch
patch_all()
assert kept == (time.sleep, os.stat)
{print_all}
print("patched")
unpatch()
{print_all}
""")
    before, during, after = found.split("patched\n")
    assert before == after
    own = re.sub(r"(?m)^(signal|getaddrinfo|current_thread) .*\n(.*\n)*?(?=[a-z_]+ [a-z_]+ |\Z)", "", during)
    for line in own.splitlines():
        assert line in before.splitlines()


def test_functions_written_in_python_are_the_replacement_wherever_they_are_kept():
    run_python("""
import functools, inspect, signal, socket, threading
def look_up(by=socket.getaddrinfo): return by("localhost", 80)
current = functools.partial(threading.current_thread)
ask = {"ask": signal.getsignal}
signature = inspect.signature(socket.getaddrinfo)
from syncless.patches import patch_all, unpatch
patch_all()
from syncless.io import dns
asked = []
original = dns._resolve_here if hasattr(dns, "_resolve_here") else None
def handler(*args): pass
signal.signal(signal.SIGUSR1, handler)
assert ask["ask"](signal.SIGUSR1) is handler       # not the object in its place
seen = []
thread = threading.Thread(target=lambda: seen.append(current()))
thread.start(); thread.join()
assert seen == [thread]
assert look_up.__defaults__[0] is not socket.getaddrinfo
assert inspect.signature(look_up.__defaults__[0]) == signature
assert look_up()
unpatch()
assert look_up.__defaults__[0] is socket.getaddrinfo and inspect.signature(socket.getaddrinfo) == signature
assert look_up() and ask["ask"](signal.SIGUSR1) is handler and current() is threading.main_thread()
""")


def test_kept_methods_live_no_longer_than_without_the_patch():
    run_python("""
import gc, select, socket, threading, weakref
class Client:
    def __init__(self):
        self.sock, self.other = socket.socketpair()
        self.recv = self.sock.recv                    # a circle, as in many programs
client = Client()
client.other.send(b"x")
from syncless.patches import patch_all, unpatch
patch_all()
assert client.recv(1) == b"x"
gone = weakref.ref(client), weakref.ref(client.sock)
client.sock.close(), client.other.close()
del client
gc.collect()
assert [each() for each in gone] == [None, None]
unpatch()
""")


def test_method_without_an_object_is_called_by_the_replacement_from_code_that_is_warm():
    """The interpreter has learned to call it past its own call, and learns it anew at unpatch()."""
    run_python("""
import _queue, _socket, socket, threading
get, recv, acquire = _queue.SimpleQueue.get, socket.socket.recv, type(threading.Lock()).acquire
def texts():
    return [(each.__name__, each.__qualname__, each.__doc__, each.__text_signature__)
        for each in (get, recv, acquire)]
before = texts()
queue, (one, other) = _queue.SimpleQueue(), socket.socketpair()
one.settimeout(0.002)
def call():
    queue.put(1); get(queue)
    other.send(b"x"); recv(one, 1)
def wait():
    call()
    for waits in (lambda: get(queue, True, 0.002), lambda: recv(one, 1)):
        try: waits()
        except Exception as error: assert type(error).__name__ in ("Empty", "TimeoutError"), error
from syncless.patches import patch_all, unpatch
import syncless
for _ in range(3):
    for _ in range(100): call()
    wait()
    patch_all()
    for _ in range(100): call()
    turns = []
    def others():
        for _ in range(1000):
            turns.append(1)
            syncless.sleep(0)
    other_tasklet = syncless.spawn(others)
    try: get(queue, timeout=0.002)
    except Exception as error: assert type(error).__name__ == "Empty", error
    assert turns
    other_tasklet.kill()
    wait()
    for method, wrong in (get, one), (recv, queue), (acquire, one):
        try: method(wrong, 1)
        except TypeError: pass
        else: raise AssertionError(method)
    bound = get.__get__(queue, type(queue))
    queue.put(2)
    raw = _socket.socket()          # of the class that recv is inherited from: it blocks as before
    assert type(raw).recv is not recv and type(raw).recv.__objclass__ is _socket.socket
    assert texts() == before
    unpatch()
    assert bound() == 2
    assert _socket.socket.recv is recv and type(queue).get is get
""")


def test_method_may_be_called_while_the_patch_is_undone():
    """The call holds what it runs."""
    run_python("""
import threading
lock = threading.Lock()
lock.acquire()
acquire = lock.acquire
from syncless.patches import patch_all, unpatch
patch_all()
import syncless
taken = syncless.spawn(acquire)
syncless.sleep(0)
unpatch()
lock.release()
assert acquire.__self__ is lock
""")


def test_own_code_keeps_originals():
    """Nothing of ours refers to a function that the patch has changed, but to its copy."""
    found = run_python("""
import gc, types
import asyncio, concurrent.futures, multiprocessing.connection, sqlite3
import syncless.asyncio, syncless.server.server, syncless.patches, syncless.wsgi
from syncless._core.cpython import functions
# what is compared with, not called
offered = {"syncless.io.socket"}      # names that it gives to programs, as the library does
compared = {("syncless.asyncio.eventloop", "_getaddrinfo"), ("syncless.asyncio.eventloop", "_getnameinfo")}
with syncless.patches.patched(cpu=True):
    asked = [function for function, copy in functions._originals.values()]
    changed = [each for each in asked if type(each) is types.MethodDescriptorType or (
        each.__self__.__spec__ is None if isinstance(each, types.BuiltinFunctionType)
        else each.__code__.co_filename == functions.__file__)]
    assert len(changed) > 80, len(changed)
    for function in changed:
        for holder in gc.get_referrers(function):
            name = holder.get("__name__") if type(holder) is dict else None
            if type(name) is str and name.split(".")[0] == "syncless" and name not in offered:
                for key, value in holder.items():
                    if value is function and (name, key) not in compared:
                        print(name, key)
""")
    assert found == ""
    assert gc.isenabled()


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_enter_that_was_kept_lets_the_holder_run(kind):
    run_python(f"""
import threading
lock = threading.{kind}()
enter = lock.__enter__
from syncless.patches import patch_all
patch_all()
held, let = threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        let.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
waiting = threading.Thread(target=lambda: (enter(), lock.release()))
waiting.start()
let.set()
waiting.join()
holder.join()
""")
