"""Exemplars: the newest traced request of each bucket of the durations, in memory that all processes share.

A process notes a request when it sends its span (otel/telemetry.py); metrics.py shows them. There is no lock:
a record has a checksum, and is left out while another process writes it.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from bisect import bisect_left
from typing import NamedTuple

from syncless.http.listener import SECONDS

RECORD = struct.Struct("=16s8sqq")
"""Trace ID, span ID, ns that the request took, and its end, ns since 1970."""
SUM = struct.Struct("=I")
"""The checksum behind each."""
SIZE = RECORD.size + SUM.size
NOTHING = bytes(SIZE)


class Exemplar(NamedTuple):
    trace_id: bytes
    span_id: bytes
    duration: int
    """ns."""
    end: int
    """ns since 1970."""


class Exemplars:
    """Exemplars(): empty."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE * (len(SECONDS) + 1))

    def note(self, one: Exemplar) -> None:
        """A request has ended; it counts unless a newer one of its bucket is known."""
        bucket = bisect_left(SECONDS, one.duration / 1e9)
        known = self.of(bucket)
        if known is None or known.end < one.end:
            record = RECORD.pack(*one)
            self._memory[bucket * SIZE : (bucket + 1) * SIZE] = record + SUM.pack(zlib.crc32(record))

    def of(self, bucket: int) -> Exemplar | None:
        """Return the newest request of a bucket, by its place in SECONDS."""
        read = self._memory[bucket * SIZE : (bucket + 1) * SIZE]
        record, checksum = read[: RECORD.size], SUM.unpack_from(read, RECORD.size)[0]
        if read == NOTHING or zlib.crc32(record) != checksum:
            return None
        return Exemplar(*RECORD.unpack(record))
