"""Calls of the C library that may ask a network, a daemon or a device let other tasklets run: each waits
there until another tasklet lets it go on."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import virtualtime

pytestmark = pytest.mark.skipif(not virtualtime.AVAILABLE, reason="the calls can be replaced where glibc is")

ROOT = pathlib.Path(__file__).parent.parent.parent
SOURCE = pathlib.Path(__file__).parent / "gates_in_c.c"
BEGIN = """
import ctypes, fcntl, grp, os, pwd, pty, socket, struct, sys, syslog, termios, tty
import syncless
from syncless.patches import patch_all
try:
    import spwd
except ImportError:
    spwd = None
lib = ctypes.CDLL(None)
near, far = pty.openpty()
attributes = termios.tcgetattr(far)

def found(call):
    plain = call()
    patch_all()
    told, tell = os.pipe()
    gate, let = os.pipe()
    passed = 0
    def attend():
        nonlocal passed
        while os.read(told, 1):
            passed += 1
            os.write(let, b"x")
    syncless.spawn(attend)
    lib.gate_set(tell, gate)
    patched = call()
    lib.gate_set(-1, -1)
    assert repr(patched) == repr(plain), (patched, plain)
    assert not lib.gate_held(), "it holds all tasklets"
    return passed

def logged():
    # they wait for a message that is under way
    others = syslog.openlog, syslog.closelog, lambda: syslog.setlogmask(255)
    made = [syncless.spawn(each) for each in (lambda: syslog.syslog("a message"), *others)]
    return [each.result(60) for each in made]

passed = """
CALLS = {
    "pwd.getpwnam": 'found(lambda: pwd.getpwnam("root"))',
    "pwd.getpwuid": "found(lambda: pwd.getpwuid(0))",
    "pwd.getpwall": "found(pwd.getpwall)",
    "grp.getgrnam": 'found(lambda: grp.getgrnam("root"))',
    "grp.getgrgid": "found(lambda: grp.getgrgid(id=0))",
    "grp.getgrall": "found(grp.getgrall)",
    "spwd.getspnam": 'found(lambda: spwd.getspnam("root"))',
    "spwd.getspall": "found(spwd.getspall)",
    "os.getgrouplist": 'found(lambda: os.getgrouplist("root", 5))',
    "os.path.expanduser": 'found(lambda: os.path.expanduser("~root"))',
    "socket.getservbyname": 'found(lambda: socket.getservbyname("http", "tcp"))',
    "socket.getservbyport": "found(lambda: socket.getservbyport(80))",
    "socket.getprotobyname": 'found(lambda: socket.getprotobyname("tcp"))',
    "syslog.syslog": 'found(lambda: syslog.syslog("a message"))',
    "syslog.openlog, closelog, setlogmask": "found(logged)",
    "termios.tcdrain": "found(lambda: termios.tcdrain(far))",
    "termios.tcflow": "found(lambda: termios.tcflow(far, termios.TCOON))",
    "termios.tcflush": "found(lambda: termios.tcflush(far, termios.TCIOFLUSH))",
    "termios.tcsendbreak": "found(lambda: termios.tcsendbreak(far, 0))",
    "termios.tcsetattr": "found(lambda: termios.tcsetattr(far, termios.TCSADRAIN, attributes))",
    "tty.setraw": "found(lambda: tty.setraw(far) and None)",
    "fcntl.ioctl": "found(lambda: fcntl.ioctl(far, termios.TCSBRK, 1))",
    "fcntl.ioctl, a buffer": ('found(lambda: fcntl.ioctl(socket.socket(), 0x8912, struct.pack("iP", 0, 0)))'),
}
ENDS = {
    "a name that is unknown": "pwd.getpwnam('nobody of that name')",
    "a service that is unknown": "socket.getservbyname('no service of that name')",
    "a group that is unknown": "grp.getgrgid(2 ** 31 - 5)",
    "a name with a zero": "pwd.getpwnam('a\\0b')",
    "a number as a name": "pwd.getpwnam(5)",
    "no terminal": "termios.tcdrain(os.open('/dev/null', os.O_RDONLY))",
    "no descriptor": "fcntl.ioctl(-1, 5)",
    "no priority": "syslog.syslog('high', 'message')",
    "arguments of the wrong kind": "termios.tcsetattr(far, termios.TCSADRAIN, [])",
    "no user": "os.getgrouplist(5, 5)",
    "no group": "os.getgrouplist('root', 'root')",
    "too many arguments": "pwd.getpwall(5)",
}


def run(program):
    library = virtualtime.build(SOURCE)
    preload = f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + program + "\nprint(passed, flush=True)\nos._exit(0)"],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": preload},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("ask", ["open('/etc/passwd', 'rb').read(1)", "os.isatty(fd)"])
def test_no_file_system_is_asked_whether_a_file_is_a_terminal(ask):
    """FUSE asks its server, by ioctl."""
    assert run(f"fd = os.open('/etc/passwd', os.O_RDONLY)\npassed = found(lambda: {ask})") == "0"


@pytest.mark.parametrize("name", CALLS)
def test_other_tasklets_run(name):
    """The tasklet that attends to the gate runs while the call waits there."""
    if name.startswith("spwd") and (sys.version_info >= (3, 13) or os.geteuid() != 0):
        pytest.skip("Python before 3.13 has it, for root")
    assert int(run(CALLS[name])) >= 1, "it did not come to the gate"


@pytest.mark.parametrize("name", ENDS)
def test_errors_are_those_of_the_original(name):
    told = f"""[]
def error():
    try:
        return {ENDS[name]}
    except Exception as error:
        return f"{{type(error)}} {{error}}"
passed = [error()]
patch_all()
passed.append(error())
assert passed[0] == passed[1] and passed[0].startswith("<class"), passed
"""
    run(told)


def test_what_lies_in_memory_costs_no_thread():
    told = """0
patch_all()
import syncless.patches.system as system
for name in ("_many", "_services", "_tables", "_log", "_devices"):
    getattr(system, name).run = None
assert termios.tcgetattr(far) == attributes
termios.tcsetattr(far, termios.TCSANOW, attributes)
assert len(fcntl.ioctl(far, termios.TIOCGWINSZ, bytes(8))) == 8
fcntl.ioctl(far, termios.FIONREAD, bytes(4))
os.get_terminal_size(far)
"""
    assert run(told) == "0"
