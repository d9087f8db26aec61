"""Builds the native modules. The two tables below say what is compiled, from which files and how.

Everything else about the project (metadata, tool settings) is in ``pyproject.toml``. Cython runs at build
time only; a failing native build fails loudly, because a syncless without its engine is no syncless.

syncless_config.h says which facilities of the system the modules may use. ``SYNCLESS_PORTABLE=1`` builds as
on a system without those of Linux, and without SIMD instructions.

``SYNCLESS_BUILD=asan`` builds with AddressSanitizer and UndefinedBehaviorSanitizer,
``SYNCLESS_BUILD=debug`` with assertions.

Why no meson-python: it starts Cython for each module, which took 1.6 times as long in all, and it wants a
file in each folder that has a module. Cython's own tree of dependencies is changed below in two places.
"""

import itertools
import multiprocessing
import os
import pathlib
import platform
import re
import runpy
import subprocess
import sys
import sysconfig
import tempfile
import time

import greenlet
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

if sys.version_info < (3, 10):  # noqa: UP036  pip runs this file before it knows what the package requires
    sys.exit(f"syncless needs Python 3.10 or newer, and this is {sys.version.split()[0]}")

# the rules of HTTP/1.1, without Python
WIRE = [f"syncless/http/wire/{name}.c" for name in ("names", "head", "host", "body", "reply")]

# module -> further C sources. The name says the .pyx, which says what it is; a .pxd of the same name is its
# table of contents.
NATIVE = {
    "syncless._core.cpython.layouts": [],
    "syncless._core.cpython.chunkcache": [],
    "syncless._core.poll.poller": [],
    "syncless._core.poll.epoll": [],
    "syncless._core.poll.kqueue": [],
    "syncless._core.clock": [],
    "syncless._core.timers": [],
    "syncless._core.cpython.threadlocal": [],
    "syncless._core.scheduler": [],
    "syncless._core.loop": [],
    "syncless._core.explore": [],
    "syncless._core.threadloop": [],
    "syncless._core.current": [],
    "syncless._core.cpython.counting": [],
    "syncless._core.cpython.tracing": [],
    "syncless._core.bytecodes": [],
    "syncless._core.tasklet": [],
    "syncless._core.handling": [],
    "syncless._core.prompt": [],
    "syncless._core.recorder": [],
    "syncless._core.timeout": [],
    "syncless._core.wait.sync": [],
    "syncless._core.wait.queues": [],
    "syncless._core.wait.select": [],
    "syncless._core.calls.sockets": [],
    "syncless._core.calls.messages": [],
    "syncless.patches.types.tlscalls": [],
    "syncless._core.calls.fileio": [],
    "syncless._core.calls.descriptors": [],
    "syncless._core.calls.filesystems": [],
    "syncless._core.calls.files": [],
    "syncless.patches.types.fileobjects": [],
    "syncless.patches.sqlite.uses": [],
    "syncless.patches.types.cputimer": [],
    "syncless.patches.types.unparked": [],
    "syncless.patches.types.locks": [],
    "syncless._core.cpython.replacing": [],
    "syncless._core.nativestack": [],
    "syncless.patches.libraries.parking": [
        f"syncless/patches/libraries/{name}.c"
        for name in (
            *("waiting", "transfers", "connecting"),
            *("polling", "pauses", "names", "loading", "elfreader"),
        )
    ],
    "syncless.stackless._thread": [],
    "syncless.stackless._state": [],
    "syncless.stackless._tasklet": [],
    "syncless.stackless._channel": [],
    "syncless.contrib.gevent._turns": [],
    "syncless.contrib.gevent._calls": [],
    "syncless.eventlet._greenlet": [],
    "syncless.eventlet._waits": [],
    "syncless.asyncio.dispatcher": [],
    "syncless.asyncio.callbacks": [],
    "syncless.asyncio.halves": [],
    "syncless.asyncio.transports": [],
    "syncless.http.wire.wire": WIRE,
    "syncless.http.requestheads": [],
    "syncless.http.log.loglines": [],
    "syncless.http.listener": [],
    "syncless.http.stream": [],
    "syncless.http.peer": [],
    "syncless.http.response": [],
    "syncless.http.request": [],
    "syncless.http.exchange": [],
    "syncless.http.websocket.websocket": [],
    "syncless.http.websocket.frames": [],
    "syncless.http.connection": [],
    "syncless.http.acceptor": [],
    "syncless.http.moved": [],
    "syncless.http.http2.stream": [],
    "syncless.http.http2.session": [],
    "syncless.apps.asgi.operations": [],
    "syncless.apps.asgi.exchange": [],
    "syncless.apps.asgi.application": [],
    "syncless.apps.wsgi.input": [],
    "syncless.apps.wsgi.application": [],
    "syncless.testing.choices": [],
    "syncless.shared.streams": [],
    "syncless.shared.memory": [f"syncless/shared/{name}.c" for name in ("region", "values", "ring")],
    "syncless.native.handler": [],
    "syncless.native.threads": [
        *WIRE,
        *(
            f"syncless/native/{name}.c"
            for name in (
                "thread",
                "accepting",
                "connection",
                "closing",
                "incoming",
                "bodies",
                "calling",
                "trust",
                "steps",
                "answer",
                "sending",
                "handlers",
                "routes",
                "deadlines",
                "messages",
                "publish",
            )
        ),
    ],
}

# Cython's own functions, such as the type of its functions: once, instead of in each module
SHARED = "syncless._core.cyutility"

# module -> the facility without which it is left out
OPTIONAL = {
    "syncless._core.poll.epoll": "EPOLL",
    "syncless._core.poll.kqueue": "KQUEUE",
    "syncless.native.threads": "EPOLL",
    "syncless._core.nativestack": "ELF",
    "syncless.patches.libraries.parking": "ELF",
    "syncless.shared.memory": "ROBUST_MUTEX",
    "syncless.shared.streams": "ROBUST_MUTEX",
    "syncless.http.http2.stream": "HTTP2",
    "syncless.http.http2.session": "HTTP2",
    "syncless._core.explore": "ASSERTIONS",
}

# facility -> a program that uses it; SYNCLESS_<facility> is 1 in syncless_config.h if it compiles
FACILITIES = {
    "EPOLL": "#include <sys/epoll.h>\nint f(void) { return epoll_create1(EPOLL_CLOEXEC); }",
    "ACCEPT4": "#include <sys/socket.h>\nint f(int s) { return accept4(s, NULL, NULL, SOCK_CLOEXEC); }",
    "PREADV2": """#include <sys/uio.h>
        int f(struct iovec *v) { return preadv2(0, v, 1, 0, RWF_NOWAIT); }
        int g(struct iovec *v) { return pwritev2(1, v, 1, 0, RWF_NOWAIT); }""",
    "OPENAT2": """#include <sys/syscall.h>
        #ifndef __linux__
        #error "openat2 is called by its number, which is Linux's"
        #endif""",
    "STATX": """#include <sys/stat.h>
        #include <sys/sysmacros.h>
        int f(struct statx *s) { return statx(0, "", 0, STATX_TYPE | STATX_SIZE, s); }""",
    "SENDFILE": """#include <sys/sendfile.h>
        ssize_t f(off_t *at) { return sendfile(1, 0, at, 1); }""",
    "ELF": """#include <dlfcn.h>
        #include <elf.h>
        #include <link.h>
        #include <sys/syscall.h>
        #include <sys/uio.h>
        #if !defined __linux__ || !(defined __x86_64__ || defined __aarch64__)
        #error "relocations and calls are read for these two"
        #endif
        int f(struct dl_phdr_info *info) { return info->dlpi_phnum; }
        ssize_t g(struct iovec *v) { return process_vm_readv(0, v, 1, v, 1, 0); }""",
    "SIGNALFD": "#include <sys/signalfd.h>\nint f(sigset_t *s) { return signalfd(-1, s, SFD_CLOEXEC); }",
    "CPUTIMER": """#include <signal.h>
        #include <time.h>
        #ifndef __linux__
        #error "a signal for one thread is asked for in Linux's way"
        #endif
        int f(struct sigevent *e, timer_t *t) { return timer_create(CLOCK_THREAD_CPUTIME_ID, e, t); }""",
    "ERRQUEUE": "#include <sys/socket.h>\nint flag = MSG_ERRQUEUE;",
    "SIOCOUTQ": "#include <linux/sockios.h>\n#include <sys/ioctl.h>\nint request = SIOCOUTQ;",
}
LINUX = frozenset(FACILITIES)
FACILITIES |= {  # not of Linux only
    "KQUEUE": "#include <sys/event.h>\nint f(void) { return kqueue(); }",
    "PPOLL": "#include <poll.h>\nint f(struct timespec *t) { return ppoll(NULL, 0, t, NULL); }",
    "ROBUST_MUTEX": """#include <pthread.h>
        #include <time.h>
        #ifndef __linux__
        #error "loops are woken by sockets whose names the system chooses, which is Linux's"
        #endif
        int f(pthread_mutexattr_t *a) { return pthread_mutexattr_setrobust(a, PTHREAD_MUTEX_ROBUST); }
        int g(pthread_mutex_t *m, struct timespec *t) { return pthread_mutex_timedlock(m, t); }""",
    "HTTP2": """#include <nghttp2/nghttp2.h>
        #if NGHTTP2_VERSION_NUM < 0x012b00
        #error "1.43 or newer"
        #endif""",
    "HTTP2_RESETS": """#include <nghttp2/nghttp2.h>
        void *f = (void *) nghttp2_option_set_stream_reset_rate_limit;""",
    "HTTP2_GLITCHES": """#include <nghttp2/nghttp2.h>
        void *f = (void *) nghttp2_option_set_glitch_rate_limit;""",
    "HTTP2_CONTINUATIONS": """#include <nghttp2/nghttp2.h>
        void *f = (void *) nghttp2_option_set_max_continuations;""",
}
WANTED = {
    "HTTP2": ("HTTP/2", "libnghttp2 1.43 or newer (libnghttp2-dev on Debian, libnghttp2-devel on Fedora)")
}
"""Facility -> its name, and what it needs. SYNCLESS_<facility> is 1 if it must be there, 0 if it may not."""

# header -> from where it is had
HEADERS = {
    "Python.h": "the headers of this Python (python3-dev on Debian, python3-devel on Fedora)",
    "greenlet.h": "greenlet 3.1 or newer",
}

SECONDS_PER_MODULE = 1.7  # of one processor

# -O1 takes the compiler two thirds of the time of -O2 and makes as much code: enough where the calls of the
# system or of Python code cost most
RARELY_RUN = {
    f"syncless.{name}"
    for name in (
        *("_core.bytecodes", "_core.nativestack", "_core.cpython.layouts", "_core.cpython.replacing"),
        *("_core.cyutility", "_core.recorder", "http.request", "native.handler"),
        *("_core.poll.poller", "_core.poll.kqueue", "_core.wait.select"),
        *("_core.calls.files", "_core.calls.filesystems", "_core.calls.fileio", "_core.calls.descriptors"),
        *("_core.calls.messages", "patches.types.fileobjects", "patches.types.tlscalls"),
        *("patches.libraries.parking", "patches.sqlite.uses", "stackless._state"),
    )
}

# build kind -> compiler flags
FLAGS = {
    "release": [
        "-O2",
        "-g0",
        "-DNDEBUG",
        "-DCYTHON_WITHOUT_ASSERTIONS",
    ],  # debug information takes the compiler long, and nobody reads it in a wheel
    "debug": ["-O0", "-g", "-UNDEBUG"],
    "asan": [
        "-O0",
        "-g1",
        "-UNDEBUG",
        "-fsanitize=address,undefined",
        "-fno-omit-frame-pointer",
        "--param=asan-stack=0",
    ],
}

# Code and constants of a module in one mapping instead of three: a fork copies each, and there are dozens of
# modules.
FEW_MAPPINGS = ["-Wl,-z,noseparate-code"] if sys.platform == "linux" else []

DIRECTIVES = {
    "language_level": "3",
    "binding": True,  # functions bind as methods and show their signatures
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": False,  # functions have __signature__; classes begin their text with it, and "--"
    "auto_pickle": False,  # nobody pickles a connection
    "emit_code_comments": False,
}
C_FILES = "build/cython"  # the same for each kind and each Python

if sys.platform == "win32":
    sys.exit(
        "syncless needs a POSIX system: on Windows, install it in WSL (https://learn.microsoft.com/windows/wsl)"
    )
if "t" in sys.abiflags:
    sys.exit("syncless needs the GIL: use the usual build of CPython, not the free-threaded one")

kind = os.environ.get("SYNCLESS_BUILD", "release")
if kind not in FLAGS:
    sys.exit(f"SYNCLESS_BUILD={kind!r}: choose one of {', '.join(FLAGS)}")
portable = os.environ.get("SYNCLESS_PORTABLE", "0") not in ("", "0")
flags = [
    *FLAGS[kind],
    *(["-DSYNCLESS_PLAIN"] if portable else []),
    "-fexceptions",
]  # an interpreter that ends unwinds the stacks of other threads, see _core/cpython/greenlet.pxd
warnings = [
    "-Wall",
    "-Wno-unused-function",
    "-Wno-unused-but-set-variable",
    "-Wno-sign-compare",
    "-Wno-unused-variable",
]


def extension(name: str, sources: list[str]) -> Extension:
    """The rule for every row of NATIVE, and for SHARED."""
    return Extension(
        name,
        [name.replace(".", "/") + (".c" if name == SHARED else ".pyx"), *sources],
        include_dirs=[
            os.path.dirname(greenlet.__file__),
            "syncless/http/wire",
            "syncless/native",
            "syncless/native/include",
            "syncless/patches/libraries",
            "syncless/shared",
        ],
        extra_compile_args=flags + (warnings + ["-O1"] * (name in RARELY_RUN)) * (kind == "release"),
        extra_link_args=[flag for flag in flags if flag.startswith("-fsanitize")] + FEW_MAPPINGS,
    )


class Build(build_ext):
    """Asks the system for its facilities, and says what is done."""

    def run(self):
        wanted = self.build_lib
        # what is there is not compiled again, for a wheel neither
        self.build_lib = f"build/native.{self.plat_name}-{sysconfig.get_config_var('SOABI')}"
        self.build_temp = f"{self.build_lib}.objects"
        super().run()
        if self.inplace:
            self.remove_others()
            return
        made = [self.get_ext_fullpath(each.name) for each in self.extensions]
        self.build_lib = wanted
        for path, each in zip(made, self.extensions, strict=True):
            self.mkpath(os.path.dirname(self.get_ext_fullpath(each.name)))
            self.copy_file(path, self.get_ext_fullpath(each.name))

    def build_extensions(self):
        for header, remedy in HEADERS.items():
            if not self.compiles(f"#include <{header}>"):
                sys.exit(f"syncless cannot be built: the compiler does not find {header}. Install {remedy}.")
        has = {facility: self.has(facility) for facility in FACILITIES} | {"ASSERTIONS": kind != "release"}
        for facility, (name, remedy) in WANTED.items():
            if os.environ.get(f"SYNCLESS_{facility}") == "1" and not has[facility]:
                sys.exit(f"syncless cannot be built with {name}: install {remedy}.")
        self.extensions[:] = [each for each in self.extensions if has.get(OPTIONAL.get(each.name), True)]
        text = "".join(f"#define SYNCLESS_{facility} {int(found)}\n" for facility, found in has.items())
        text += f"/* {kind}{' portable' if portable else ''}, {' '.join(flags)} */\n"
        compiler = self.compiler.compiler_so
        if kind != "release":  # which shows the warnings; a sixth of the compiler's time goes to them
            compiler[:] = [flag for flag in compiler if not re.match("-W(?![alp],)", flag)]
        told = subprocess.run([*compiler, "--version"], capture_output=True, text=True)
        version = told.stdout.partition("\n")[0]
        text += f"/* {' '.join(compiler)}: {version} */\n"
        text += f"/* {' '.join(platform.libc_ver())}, greenlet {greenlet.__version__} */\n"
        text += f"/* with -O1: {' '.join(sorted(RARELY_RUN))} */\n"
        config = pathlib.Path(self.build_temp, "syncless_config.h")
        if not config.exists() or config.read_text() != text:
            # Modules of another kind, or made for other facilities, are not up to date, however new they are.
            for each in self.extensions:
                pathlib.Path(self.get_ext_fullpath(each.name)).unlink(missing_ok=True)
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text(text)
        if self.is_up_to_date(config):
            return
        began = time.time()
        try:
            self.translate()
        finally:  # what was edited meanwhile is newer than its work
            for path in pathlib.Path(C_FILES).rglob("*.c"):
                if path.stat().st_mtime > began:
                    os.utime(path, (began, began))
        for each in self.extensions:
            each.include_dirs.append(self.build_temp)
            if OPTIONAL.get(each.name) == "KQUEUE" and sys.platform == "linux":
                each.libraries.append("kqueue")  # libkqueue, which emulates it
            if OPTIONAL.get(each.name) == "HTTP2":
                each.libraries.append("nghttp2")
        self.announce_work()
        super().build_extensions()
        os.utime(config, (began, began))
        for facility, (name, remedy) in WANTED.items():
            if not has[facility] and os.environ.get(f"SYNCLESS_{facility}") != "0":
                say(f"syncless: built without {name}. For it, install {remedy}, and build again.")

    def remove_others(self):
        """Modules in the tree for which there is no source any more, or that this build leaves out."""
        ours = {pathlib.Path(self.get_ext_fullpath(each.name)).resolve() for each in self.extensions}
        for path in pathlib.Path("syncless").rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
            if path.resolve() not in ours:
                path.unlink()

    def is_up_to_date(self, config) -> bool:
        """Told by the time of the last build; Cython takes seconds to find out what depends on what."""
        sources = (
            path
            for path in pathlib.Path("syncless").rglob("*")
            if path.suffix in (".pyx", ".pxi", ".pxd", ".c", ".h")
        )
        newest = max(path.stat().st_mtime for path in [*sources, pathlib.Path(__file__)])
        modules = (pathlib.Path(self.get_ext_fullpath(each.name)) for each in self.extensions)
        return not self.force and newest < config.stat().st_mtime and all(path.exists() for path in modules)

    def translate(self):
        """Cython: .pyx to C. Only a build needs it; metadata and a source distribution do not."""
        import Cython
        from Cython.Build import Dependencies, cythonize
        from Cython.Utils import file_generated_by_this_cython

        own = os.path.dirname(Cython.__file__)

        class Tree(Dependencies.DependencyTree):
            """Cython's own declarations count by its version, which is asked for below, and not by their
            times: each virtual environment would compile everything again."""

            def timestamp(self, path):
                return 0.0 if path.startswith(own) else super().timestamp(path)

        Dependencies.DependencyTree = Tree
        # What `from package cimport module` names. Cython 3.3 searches it with a ^ that never matches there.
        Dependencies.dependency_after_from_regex = re.compile(r"\s*\(([\w.,\s]*)\)|[ \t]*([\w., \t]*)")

        directives = pathlib.Path(C_FILES, "directives")
        other = not directives.exists() or directives.read_text() != repr(DIRECTIVES)
        for path in pathlib.Path(C_FILES).rglob("*.c"):
            if other or not file_generated_by_this_cython(str(path)):
                path.unlink()
        for path in pathlib.Path(C_FILES).rglob("*.h"):
            path.unlink()  # Cython's copies: one of a header that has moved would hide it
        directives.parent.mkdir(parents=True, exist_ok=True)
        directives.write_text(repr(DIRECTIVES))
        translated = cythonize(
            list(self.extensions),
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
            build_dir=C_FILES,
            nthreads=os.cpu_count() or 1,
        )
        by_name = {each.name: each for each in translated}
        for each in self.extensions:  # these stay: setuptools has noted more in them
            each.sources, each.depends = by_name[each.name].sources, by_name[each.name].depends
        # the longest first, so that none is left alone at the end
        self.extensions.sort(key=lambda each: -sum(os.path.getsize(source) for source in each.sources))

    def get_source_files(self):
        return []  # MANIFEST.in names them

    def has(self, facility: str) -> bool:
        left_out = (portable and facility in LINUX) or os.environ.get(f"SYNCLESS_{facility}") == "0"
        return not left_out and self.compiles(FACILITIES[facility])

    def compiles(self, source: str) -> bool:
        folders = [f"-I{folder}" for folder in (*self.include_dirs, os.path.dirname(greenlet.__file__))]
        command = [*self.compiler.compiler_so, *folders, "-Werror=implicit-function-declaration"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "probe.c")
            path.write_text(f"#define _GNU_SOURCE\n#include <stddef.h>\n#include <Python.h>\n{source}\n")
            try:
                done = subprocess.run(
                    [*command, "-c", path, "-o", path.with_suffix(".o")], stderr=subprocess.DEVNULL
                )
            except FileNotFoundError:
                sys.exit(
                    f"syncless cannot be built: there is no compiler {command[0]}. Install one, such as gcc."
                )
        return done.returncode == 0

    def announce_work(self):
        self.stale = {
            each.name
            for each in self.extensions
            if self.force or newer_group([*each.sources, *each.depends], self.get_ext_fullpath(each.name))
        }
        self.started = itertools.count(1)
        if self.stale:
            cores = min(os.cpu_count() or 1, len(self.stale))
            say(
                f"syncless: compiling {len(self.stale)} of {len(self.extensions)} native modules "
                f"on {cores} processors, in about {SECONDS_PER_MODULE * len(self.stale) / cores:.0f} s"
            )

    def build_extension(self, each):
        if each.name in self.stale:
            say(f"[{next(self.started):3}/{len(self.stale)}] Compiling {each.name}")
        super().build_extension(each)


def say(text: str):
    print(text, file=sys.stderr, flush=True)


multiprocessing.set_start_method("fork", force=True)  # Cython's helpers must not run this file again

description = runpy.run_path(os.path.join(os.path.dirname(__file__), "scripts", "docs", "description.py"))

setup(
    cmdclass={"build_ext": Build},
    **description["of_package"](),
    ext_modules=[extension(name, sources) for name, sources in {SHARED: [], **NATIVE}.items()],
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
