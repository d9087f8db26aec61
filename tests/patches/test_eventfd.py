"""os.eventfd_read and os.eventfd_write under the patch."""

import os

import pytest

import syncless
from syncless.patches import files
from tests.programs import run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "eventfd"), reason="this system has no eventfd")


@pytest.fixture
def fd():
    fd = os.eventfd(0)
    yield fd
    os.close(fd)


def test_reader_parks_until_something_is_written(fd):
    reader = syncless.spawn(files.eventfd_read, fd)
    syncless.sleep(0)
    assert not reader.done()
    files.eventfd_write(fd, 7)
    assert reader.result() == 7 and os.get_blocking(fd)


def test_writer_parks_until_there_is_room(fd):
    files.eventfd_write(fd, 2**64 - 3)
    writer = syncless.spawn(files.eventfd_write, fd, 5)
    syncless.sleep(0)
    assert not writer.done() and files.eventfd_read(fd) == 2**64 - 3
    writer.result()
    assert files.eventfd_read(fd) == 5 and os.get_blocking(fd)


def test_semaphore_gives_one_to_each(fd):
    counter = os.eventfd(0, os.EFD_SEMAPHORE)
    readers = [syncless.spawn(files.eventfd_read, counter) for _ in range(3)]
    files.eventfd_write(counter, 3)
    assert [reader.result() for reader in readers] == [1, 1, 1]
    os.close(counter)


def test_arguments_and_errors_are_those_of_the_original(fd):
    left, right = os.pipe()
    os.write(right, b"abc")
    never = os.eventfd(0, os.EFD_NONBLOCK)

    def outcome(function, *arguments):
        try:
            return function(*arguments)
        except Exception as error:
            return type(error), str(error)

    for value in (-1, 2**64, 2**64 - 1, "x", 1.5, None):
        assert outcome(files.eventfd_write, fd, value) == outcome(os.eventfd_write, fd, value)
    for wrong in (-1, "x", None, 100_000, never):
        assert outcome(files.eventfd_read, wrong) == outcome(os.eventfd_read, wrong)
        assert outcome(files.eventfd_write, wrong, 2**64 - 1) == outcome(os.eventfd_write, wrong, 2**64 - 1)
    first = outcome(files.eventfd_read, left)
    os.write(right, b"abc")
    assert first == outcome(os.eventfd_read, left) and first[0] is OSError
    for each in (left, right, never):
        os.close(each)


def test_two_threads_talk():
    assert (
        run_python("""
from syncless.patches import patch_all
patch_all()
import os, threading
there, back = os.eventfd(0), os.eventfd(0)
def echo():
    for _ in range(100):
        os.eventfd_write(back, os.eventfd_read(there))
thread = threading.Thread(target=echo)
thread.start()
for number in range(1, 101):
    os.eventfd_write(there, number)
    assert os.eventfd_read(fd=back) == number
thread.join()
print("talked")
""")
        == "talked\n"
    )
