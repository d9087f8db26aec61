"""`--limit requests=auto`: how many requests run, found by their latency; a database in virtual time."""

import heapq
import random
from collections import deque

import pytest

from syncless.http.overload import LEAST, MOST, STANDING_SECONDS, START, AutoLimit
from syncless.http.priorities import HIGH, LOW, NORMAL

SERVICE = 0.05
BEST = 20 / SERVICE
"""Requests per second that 20 connections can answer."""


class Database:
    """Database(rate, seconds): requests at random at that rate, for a server whose database has 20
    connections. `rate` and `slower` are functions of the time. Each run gives the same."""

    def __init__(self, rate, seconds, connections=20, slower=lambda now: 1.0):
        self.random = random.Random(7)
        self.rule = AutoLimit(0.0)
        self.connections, self.slower = connections, slower
        self.events = []
        self.running = self.refused = 0
        self.waiting, self.at_database = deque(), deque()
        self.answered, self.limits = [], []
        self.free = connections
        self.push(0.0, None)
        while (now := self.events[0][0]) < seconds:
            _, _, request = heapq.heappop(self.events)
            if request is None:
                self.push(now + self.random.expovariate(rate(now)), None)
                self.arrive(now)
            else:
                self.end(now, request)
            self.rule.look(now)
            while self.waiting and now - self.waiting[0] > self.rule.patience(NORMAL):
                self.waiting.popleft()
                self.rule.waits_no_more(now)
                self.refused += 1

    def push(self, when, request):
        heapq.heappush(self.events, (when, self.random.random(), request))

    def arrive(self, now):
        if self.running < self.rule.limit:
            self.begin(now, now)
        elif self.rule.may_wait(now, NORMAL):
            self.waiting.append(now)
            self.rule.waits(now)

    def begin(self, now, arrived):
        self.running += 1
        self.at_database.append((now, arrived))
        self.query(now)

    def query(self, now):
        if self.free and self.at_database:
            self.free -= 1
            seconds = SERVICE * self.slower(now) * self.random.uniform(0.9, 1.1)
            self.push(now + seconds, self.at_database.popleft())

    def end(self, now, request):
        began, arrived = request
        self.free += 1
        self.query(now)
        self.limits.append((now, self.rule.ended(now, now - began, self.running)))
        self.running -= 1
        self.answered.append((now, now - arrived))
        while self.waiting and self.running < self.rule.limit:
            arrived = self.waiting.pop() if self.rule.look(now) else self.waiting.popleft()
            self.rule.waits_no_more(now)
            self.begin(now, arrived)

    def goodput(self, since, until):
        return sum(since <= now < until for now, _ in self.answered) / (until - since)

    def p99(self, since, until):
        times = sorted(seconds for now, seconds in self.answered if since <= now < until)
        return times[int(len(times) * 0.99)]

    def limit(self, since, until):
        """The limit in force most of the time."""
        limits = sorted(limit for now, limit in self.limits if since <= now < until)
        return limits[len(limits) // 2]


@pytest.fixture(scope="module")
def doubled():
    """Nine tenths of what the database can do, and from the second 8 on twice as much."""
    return Database(lambda now: BEST * (0.9 if now < 8 else 1.8), 20)


def test_goodput_stays_when_the_load_doubles(doubled):
    assert doubled.goodput(2, 8) == pytest.approx(BEST * 0.9, rel=0.05)
    assert doubled.goodput(8, 20) >= BEST * 0.9


def test_answers_take_less_than_twice_as_long_when_the_load_doubles(doubled):
    assert doubled.p99(10, 20) < 2 * SERVICE and doubled.refused > 0


def test_limit_settles_near_the_connections_of_the_database(doubled):
    assert 18 <= doubled.limit(10, 20) <= 27
    assert doubled.rule.latency == pytest.approx(SERVICE, rel=0.1)


def test_limit_follows_a_database_that_gets_slower():
    """It is not taken for one that is full."""
    slow = Database(lambda now: BEST * 1.5, 9, slower=lambda now: 3.0 if now >= 2 else 1.0)
    assert 18 <= slow.limit(7, 9) <= 30 and slow.goodput(6, 9) >= BEST / 3 * 0.8


def test_limit_grows_where_more_requests_are_no_slower():
    wide = Database(lambda now: 2000, 2, connections=1000)
    assert wide.goodput(1.5, 2) >= 1800 and wide.rule.limit >= 100


def test_limit_stays_where_it_limits_nothing():
    rule = AutoLimit(0.0)
    for number in range(1000):
        rule.ended(number / 100, 0.05, 3)
    assert rule.limit == START and rule.latency == pytest.approx(0.05)


def test_limit_has_bounds():
    rule, now = AutoLimit(0.0), 0.0
    for number in range(3000):
        now += 0.01
        rule.ended(now, 0.01 * 1.003**number, rule.limit)
    assert rule.limit == LEAST
    rule = AutoLimit(0.0)
    for number in range(3000):
        rule.ended(number / 100, 0.01, rule.limit)
    assert rule.limit == MOST


# -- those that wait -------------------------------------------------------------------------------


def test_queue_is_late_when_it_was_not_empty_for_a_while():
    rule = AutoLimit(0.0)
    assert rule.may_wait(1.0, LOW)
    rule.waits(1.0)
    assert not rule.look(1.0 + STANDING_SECONDS * 0.9) and rule.patience(NORMAL) == STANDING_SECONDS
    assert rule.look(1.0 + STANDING_SECONDS)
    assert rule.patience(NORMAL) == 0.005 and rule.patience(HIGH) == STANDING_SECONDS
    assert not rule.may_wait(1.2, LOW) and rule.may_wait(1.2, NORMAL)


def test_queue_that_was_empty_for_a_moment_is_still_late():
    rule = AutoLimit(0.0)
    rule.waits(1.0)
    assert rule.look(1.2)
    rule.waits_no_more(1.2)
    assert rule.may_wait(1.25, HIGH) and rule.late
    assert rule.may_wait(1.3, LOW) and not rule.late


def test_requests_wait_for_half_as_long_as_they_take():
    rule = AutoLimit(0.0)
    for number in range(100):
        rule.ended(number / 10, 0.4, 1)
    assert rule.may_wait(10.0, NORMAL)
    rule.waits(10.0)
    assert not rule.look(10.7) and rule.look(10.8) and rule.patience(NORMAL) == pytest.approx(0.2)
