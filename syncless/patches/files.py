"""Descriptors that may have nothing to read: pipes, FIFOs, terminals. os.read and its kin, and io.FileIO, on which all files stand."""

from __future__ import annotations

import io
import os

from syncless._core import fdcalls
from syncless.patches.registry import Patcher

FUNCTIONS = {"read": fdcalls.read, "write": fdcalls.write, "readv": fdcalls.readv, "writev": fdcalls.writev}
FILE = {"readinto": fdcalls.file_readinto, "read": fdcalls.file_read, "readall": fdcalls.file_readall}


def patch(patcher: Patcher) -> None:
    for name, new in FUNCTIONS.items():
        patcher.rebind(os, name, new, "waits for the other end of a pipe")
    for name, new in FILE.items():
        patcher.member_in_place(io.FileIO, name, new, "waits for the other end of a pipe")
