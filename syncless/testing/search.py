"""Looks for a schedule under which a test fails: runs it under many, and shortens the one that fails.

Takes: a test, as a function that may be called again and again. Gives: the first failure, with its seed, the
fewest unusual choices that still lead to it, and what the tasklets did.
"""

from __future__ import annotations

import functools
import gc
import random
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.thread import ThreadPoolExecutor, _worker
from contextlib import contextmanager
from typing import Any, ParamSpec

from syncless._core.calls.filesystems import set_mode
from syncless._core.current import current
from syncless._core.exits import set_error_handler
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import current_loop
from syncless._core.wait.sync import Waits
from syncless.debug import Deadlock, format_stuck
from syncless.patches import patch_all
from syncless.patches.threads import let_preemption_rest
from syncless.testing.choices import Choices, begins_here, put_back_timers, set_aside_timers
from syncless.testing.interleaving import Interleaving, is_own
from syncless.testing.virtualtime import Clock, clock_on, clocks_replaced, is_on, until_idle

_P = ParamSpec("_P")
Choice = tuple[int, int, int]

ATTEMPTS = 300
"""Runs to shorten a schedule."""
LETTERS = "ocbtn"
"""For the kinds of choices, see choices.pyx."""
NOT_STOPPED = "threads are not stopped between bytecodes: a debugger or coverage has set a trace function"
FAREWELL = 1.0
"""Virtual seconds for each tasklet that a run has left, until it has ended."""


def encode(choices: Iterable[Choice]) -> str:
    """Return unusual choices as one word; "0" if there are none."""
    return "-".join(f"{LETTERS[kind]}{number}.{value}" for kind, number, value in choices) or "0"


def parse(seed: str | int) -> Choices:
    """Return the choices of a seed: a number, or a word of encode(). 0 is the usual schedule."""
    if str(seed).isdigit():
        return Choices(seed=int(seed)) if int(seed) else Choices()
    found = [re.fullmatch(rf"([{LETTERS}])(\d+)\.(\d+)", part) for part in str(seed).split("-")]
    if not all(found):
        raise ValueError(f"a seed is a number, or such as 'o3.1-b40.2', not {seed!r}")
    return Choices(given=[(LETTERS.index(each[1]), int(each[2]), int(each[3])) for each in found if each])


class Run:
    """One run of a test under a schedule, and what came of it."""

    def __init__(self, choices: Choices, records: bool = False) -> None:
        self.choices = choices
        self.error: BaseException | None = None
        self.interleaving = Interleaving() if records else None
        self._uncaught: list[BaseException] = []
        self.outside: set[str] = set()

    def call(self, test: Callable[[], object]) -> None:
        """Run the test. Raise its error, or the first one that a thread or tasklet did not catch."""
        body = current()
        assert body is not None
        before = {each.number for each in current_loop().tasklets()}
        clock = Clock(body)
        with _timers_aside(), _without_tracer(), clock_on(clock), self._repeatable():
            until_idle()  # events of an earlier run come now
            try:
                _call(self, body, test)
            except BaseException as error:
                self.error = error
                raise
            finally:
                self.outside = clock.outside
                self._end_others(before)
        if self._uncaught:
            self.error = self._uncaught[0]
            raise self.error
        if not self.choices.preempts:
            warnings.warn(NOT_STOPPED, RuntimeWarning, stacklevel=2)

    @contextmanager
    def _repeatable(self) -> Iterator[None]:
        """Give each run the same random numbers, hooks and garbage collection; keep exceptions that nobody
        catches."""
        numbers, collects, hook = random.getstate(), gc.isenabled(), threading.excepthook
        handler = set_error_handler(lambda where, error: self._uncaught.append(error))
        threading.excepthook = lambda args: self._uncaught.append(args.exc_value or args.exc_type())
        mode = set_mode("pool")  # how quick files are must not show, and each call is a wait
        let_preemption_rest(True)
        random.seed(0)
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()
            set_mode(mode)
            let_preemption_rest(False)
            random.setstate(numbers)
            set_error_handler(handler)
            threading.excepthook = hook

    def _end_others(self, before: set[int]) -> None:
        """No tasklet of this run may be there in the next one. A circle that is left is a failure, too."""
        left = [each for each in current_loop().tasklets() if each.number not in before]
        if self.error is None and left:
            circles = [circle for circle in Waits().circles() if set(circle) & set(left)]
            if circles:
                self._uncaught.append(Deadlock(f"nothing can go on\n{format_stuck(circles[0], False)}"))
        failed = len(self._uncaught)
        for executor in {each for each in map(_executor_of, left) if each is not None}:
            _empty(executor)
        for each in left:
            Tasklet.kill(each, block=False)  # those of other APIs have a kill() of their own
        for each in left:
            each.join(FAREWELL)
        del self._uncaught[failed:]


@contextmanager
def _timers_aside() -> Iterator[None]:
    """Timeouts that were set before the run do not end in it: they have real time, such as that of
    pytest-timeout."""
    aside = set_aside_timers(current_loop())
    try:
        yield
    finally:
        put_back_timers(current_loop(), aside)


@contextmanager
def _without_tracer() -> Iterator[None]:
    """Before Python 3.12 Hypothesis traces a test that has failed, to explain it, and threads would not be
    stopped any more: it could neither repeat the failure nor shrink it."""
    tracer = sys.gettrace()
    if not type(getattr(tracer, "__self__", None)).__module__.startswith("hypothesis."):
        yield
        return
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def _executor_of(tasklet: Tasklet[Any]) -> ThreadPoolExecutor | None:
    """Return the executor of which this is an idle thread."""
    frame = tasklet.frame
    while frame is not None and frame.f_code is not _worker.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["executor_reference"]()


def _empty(executor: Any) -> None:
    """End the executor's threads. It starts new ones when it has work, as in the first run."""
    if executor._shutdown:
        return
    executor.shutdown(wait=False, cancel_futures=True)
    for thread in executor._threads:
        thread.join(FAREWELL)
    while not executor._work_queue.empty():
        executor._work_queue.get_nowait()
    executor._threads.clear()
    executor._idle_semaphore = threading.Semaphore(0)
    executor._shutdown = False


def _call(run: Run, body: Tasklet[Any], test: Callable[[], object]) -> None:
    """The program begins here."""
    run.choices.start(body, is_own)
    if run.interleaving is not None:
        run.interleaving.start()
    try:
        test()
    finally:
        run.choices.stop()
        if run.interleaving is not None:
            run.interleaving.stop()


begins_here(_call.__code__)


class Search:
    """Finds a failing schedule among `count`, or runs that of the seed alone. attempt(run) calls run.call()
    with the test, prepared anew, and returns whether it failed."""

    def __init__(
        self,
        attempt: Callable[[Run], bool],
        count: int,
        seed: str | int | None = None,
        is_warm: bool = False,
    ) -> None:
        """`is_warm`: the process has run this test before."""
        self._attempt = attempt
        self._is_warm = is_warm
        self._count = count
        self._seed = seed
        self.seed: str | int | None = None
        """Of the schedule that fails."""
        self.runs = 0
        self.shortest: list[Choice] = []
        self.last: Run | None = None

    def find(self, shortens: bool = True) -> bool:
        """Return whether a schedule fails. `last` is then the run of the shortest one.

        Fact: a program imports and computes some things in its first run only. Danger: a seed has other
        choices there than in the search, whose first run has the usual schedule. Decision: that comes first.
        """
        if self._seed is not None and str(self._seed) != "0" and not self._is_warm:
            self._attempt(Run(parse(0)))
        for seed in range(self._count) if self._seed is None else [self._seed]:
            run = Run(parse(seed), records=self._seed is not None)
            if self._fails(run):
                self.seed = seed
                break
            if not run.choices.made:
                return False  # all schedules are the same
        else:
            return False
        self.shortest = list(run.choices.taken)
        if shortens and self._seed is None:
            self._shorten(run)
        return True

    def _fails(self, run: Run) -> bool:
        self.runs += 1
        self.last = run
        return self._attempt(run)

    def _shorten(self, first: Run) -> None:
        """Leave out as many unusual choices as may be: halves of them, quarters, ..., one after the other."""
        kind = type(first.error)
        step = max(1, len(self.shortest) // 2)
        left = ATTEMPTS
        while self.shortest and left:
            at, before = 0, len(self.shortest)
            while at < len(self.shortest) and left:
                shorter = self.shortest[:at] + self.shortest[at + step :]
                left -= 1
                run = Run(Choices(given=shorter))
                if self._fails(run) and type(run.error) is kind:
                    self.shortest = shorter
                else:
                    at += step
            if step == 1 and len(self.shortest) == before:
                break
            step = max(1, step // 2)
        run = Run(Choices(given=self.shortest), records=True)
        self._failed_again = self._fails(run) and type(run.error) is kind

    _failed_again = True

    def report(self) -> str:
        """Return the seeds, and what happened."""
        run = self.last
        assert run is not None
        word = encode(self.shortest)
        lines = [f"fails with seed {self.seed}, the schedule number {self.runs}"]
        if self._seed is None:
            lines = [f"fails with seed {self.seed}, after {self.runs} runs of the test"]
            unusual = f"{len(self.shortest)} unusual choice{'s' * (len(self.shortest) != 1)}"
            lines.append(f"the shortest schedule that fails has {unusual}: {word}")
        lines.append(f"to repeat it: --seed {self.seed}, or --seed {word}")
        if not self._failed_again:
            lines.append("not deterministic here: the same schedule did not fail again")
        if run.outside:
            lines.append(f"not deterministic here: waits for {', '.join(sorted(run.outside))}")
        if not run.choices.preempts:
            lines.append(NOT_STOPPED)
        if run.interleaving is not None:
            lines += run.interleaving.lines
        return "\n".join(lines)


_warm: set[tuple[str, str]] = set()
"""Tests that schedules() has run."""

_Decorator = Callable[[Callable[_P, object]], Callable[_P, None]]


def schedules(count: int, seed: str | int | None = None) -> _Decorator[_P]:
    """Decorate a test, such as a method of a unittest.TestCase: run it under `count` schedules, each time on
    a virtual clock of its own, until it fails. `seed` runs only the schedule of that seed. The error that is
    raised has the report as a note (before Python 3.11, standard error has it)."""

    def decorate(test: Callable[_P, object]) -> Callable[_P, None]:
        @functools.wraps(test)
        def search(*args: _P.args, **kwargs: _P.kwargs) -> None:
            if is_on():
                test(*args, **kwargs)  # `pytest --schedules` has chosen one
                return

            def attempt(run: Run) -> bool:
                try:
                    run.call(lambda: test(*args, **kwargs))
                except Exception as error:
                    run.error = error
                return run.error is not None

            patch_all()
            name = test.__module__, test.__qualname__
            found = Search(attempt, count, seed, name in _warm)
            _warm.add(name)
            with clocks_replaced():
                failed = found.find()
            if failed and found.last is not None and found.last.error is not None:
                _raise(found.last.error, found.report())

        return search

    return decorate


def _raise(error: BaseException, report: str) -> None:
    add_note = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(report)
    else:
        print(report, file=sys.stderr)
    raise error
