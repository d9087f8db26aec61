"""Counters in shared memory, and how the rows of processes become totals."""

import pytest

from syncless.http.listener import CELLS, SECONDS, Counters, totals
from syncless.server.status.overview import quantile, rates
from syncless.server.status.scoreboard import CELL, Scoreboard


def counted(*answers):
    memory = bytearray(CELLS * 8)
    counters = Counters(memory)
    for code, seconds in answers:
        counters.count(code, int(seconds * 1e9))
    return totals(memoryview(memory).cast("q"))


def test_answers_are_counted_by_status_and_latency():
    found = counted((200, 0.0004), (200, 0.0005), (404, 0.003), (599, 1000))
    assert found["requests"] == {200: 2, 404: 1, 599: 1} and found["refused"] == {}
    assert found["latency"] == [2, 0, 0, 1, *[0] * 12, 1]
    assert found["latency_seconds"] == pytest.approx(1000.0039)


def test_answer_without_a_measure_is_not_in_the_latency():
    memory = bytearray(CELLS * 8)
    Counters(memory).count(101)
    found = totals(memoryview(memory).cast("q"))
    assert found["requests"] == {101: 1} and sum(found["latency"]) == 0


@pytest.mark.parametrize("code", [-1, 600, 10**6])
def test_invalid_status_number_is_refused(code):
    with pytest.raises(ValueError):
        Counters(bytearray(CELLS * 8)).count(code)


def test_too_little_memory_is_refused():
    with pytest.raises(ValueError):
        Counters(bytearray(CELLS * 8 - 1))


def test_memory_stays_while_counters_use_it():
    memory = bytearray(CELLS * 8)
    counters = Counters(memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    del counters
    memory.extend(b"more")


def process(board, number, answers):
    board.begin(number)
    board.row(number)[CELL["pid"]] = 1000 + number
    counters = Counters(board.row(number))
    for code in answers:
        counters.count(code, 1000)


def test_counts_of_a_process_outlive_it():
    board = Scoreboard(3)
    process(board, 1, [200, 200])
    process(board, 3, [404])
    board.row(3)[CELL["accepted"]] = 7
    board.row(3)[CELL["connections"]] = 5
    before = board.sum()
    assert before["requests"] == {200: 2, 404: 1} and before["connections"] == 5 and before["processes"] == 2
    board.end(3)
    after = board.sum()
    assert after["requests"] == before["requests"] and after["accepted"] == 7
    assert after["connections"] == 0 and after["processes"] == 1
    process(board, 3, [404])
    assert board.sum()["requests"] == {200: 2, 404: 2}


def test_utilization_of_several_processes_is_their_mean():
    board = Scoreboard(3)
    assert board.sum()["utilization_ppm"] == 0
    for number, share in ((1, 900_000), (3, 100_000)):
        process(board, number, [])
        board.row(number)[CELL["utilization_ppm"]] = share
    assert board.sum()["utilization_ppm"] == 500_000


def test_sum_ends_although_the_master_was_killed_while_it_moved_counts(monkeypatch):
    monkeypatch.setattr("syncless.server.status.scoreboard.PATIENCE", 10)
    board = Scoreboard(1)
    process(board, 1, [200])
    board.row(0)[CELL["version"]] = 1
    assert board.sum()["requests"] == {200: 1}


def test_rates_are_those_between_two_sums():
    board = Scoreboard(1)
    process(board, 1, [200] * 10)
    before = board.sum()
    counters = Counters(board.row(1))
    for code in (200, 200, 500, 503):
        counters.count(code, 2_000_000)
    found = rates(before, board.sum(), 2.0)
    assert (
        found["requests"] == 2.0 and found["errors"] == 1.0 and found["mean_seconds"] == pytest.approx(0.002)
    )


def test_quantile_is_estimated_within_its_bucket():
    buckets = [0] * (len(SECONDS) + 1)
    assert quantile(buckets, 0.95) == 0.0
    buckets[3] = 100  # from 2.5 to 5 ms
    assert quantile(buckets, 0.5) == pytest.approx(0.00375)
    buckets[-1] = 1000
    assert quantile(buckets, 0.99) == SECONDS[-1]
