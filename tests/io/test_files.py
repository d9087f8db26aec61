"""syncless.io.files: files for tasklets of programs that are not patched."""

import io
import os
import select

import pytest

import syncless
from syncless._core.calls import threads
from syncless.io import files
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def test_written_data_is_read(tmp_path):
    path = tmp_path / "file"
    data = os.urandom(100_000)
    assert files.write_file(path, data) == 100_000 and files.read_file(path) == data
    assert files.write_file(str(path), bytearray(b"other"), durable=True) == 5
    assert files.read_file(os.fsencode(path)) == b"other" and os.listdir(tmp_path) == ["file"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    files.write_file(path, b"before")
    with pytest.raises(TypeError):
        files.write_file(path, "text")
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write_file(tmp_path / "directory", b"x")
    with pytest.raises(FileNotFoundError):
        files.write_file(tmp_path / "none" / "file", b"x")
    assert files.read_file(path) == b"before" and sorted(os.listdir(tmp_path)) == ["directory", "file"]


@pytest.mark.parametrize(("durable", "expected"), [(True, ["fsync", "replace"]), (False, ["replace"])])
def test_durable_data_is_on_the_disk_before_its_name(tmp_path, monkeypatch, durable, expected):
    calls = []

    def recorded(name, call):
        def record(*args):
            calls.append(name)
            return call(*args)

        return record

    monkeypatch.setattr(files, "_fsync", recorded("fsync", files._fsync))
    monkeypatch.setattr(files, "_replace", recorded("replace", files._replace))
    files.write_file(tmp_path / "file", b"data", durable=durable)
    assert calls == expected


@pytest.mark.parametrize(
    "mode",
    [
        "r",
        "rb",
        "w",
        "wb",
        "a",
        "ab",
        "r+",
        "r+b",
        "rb+",
        "w+",
        "x",
        "xb",
        "rt",
        "",
        "q",
        "rw",
        "rbt",
        "b",
        "rr",
        "+",
        "tb",
    ],
)
@pytest.mark.parametrize("buffering", [-1, 0, 100])
def test_open_makes_what_the_builtin_makes(tmp_path, mode, buffering):
    seen = []
    for number, function in enumerate((open, files.open)):
        path = tmp_path / str(number)
        if "x" not in mode:
            path.write_text("one\ntwo\n")
        try:
            with function(path, mode, buffering) as file:
                kinds = [type(each).__mro__[-4:] for each in (file, getattr(file, "buffer", file))]
                seen.append(
                    [
                        kinds,
                        file.readable() and file.read(),
                        file.tell() if "b" in mode else None,
                        file.mode,
                        file.name == str(path),
                    ]
                )
        except (ValueError, io.UnsupportedOperation) as error:
            seen.append(type(error))
    if buffering == 0 and "b" in mode and isinstance(seen[0], list):
        seen[0][0] = seen[1][0] = None  # a subclass of FileIO
    assert seen[0] == seen[1]


def test_lines_are_written_as_they_end(tmp_path):
    with files.open(tmp_path / "file", "w", 1) as file:
        file.write("one\ntwo")
        assert files.read_file(tmp_path / "file") == b"one\ntwo"
    with pytest.raises(ValueError, match="only in text mode"):
        files.open(tmp_path / "file", "rb", 1)


def test_text_by_lines_and_encodings(tmp_path):
    path = tmp_path / "file"
    with files.open(path, "w", encoding="utf-16") as file:
        file.write("é\nß\n")
    with files.open(path, encoding="utf-16") as file:
        assert list(file) == ["é\n", "ß\n"]
    with pytest.raises(UnicodeDecodeError), files.open(path, encoding="utf-8") as file:
        file.read()
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "none")


def test_others_go_on_while_a_fifo_waits(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = syncless.spawn(files.read_file, path)
    syncless.sleep(0.02)
    assert not reader.done()
    with files.open(path, "wb") as file:
        file.write(b"hello")
        file.flush()
        syncless.sleep(0.01)
        file.write(b" again")
    assert reader.result(5) == b"hello again"


@pytest.mark.parametrize("mode", ["adaptive", "pool"])
def test_killed_tasklet_leaves_no_descriptor_of_its_open_call(tmp_path, mode):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    before = files.set_mode(mode)
    try:
        opener = syncless.spawn(files._open, path, os.O_RDONLY)
        assert eventually(lambda: opener.waiting_for is not None)
        syncless.sleep(0.02)  # then the thread waits inside the call
        opener.kill()
        opened = os.open(path, os.O_WRONLY)  # the thread's call ends now
        assert eventually(lambda: is_closed_by_reader(opened))
        os.close(opened)
    finally:
        files.set_mode(before)


def is_closed_by_reader(fd):
    poll = select.poll()
    poll.register(fd, 0)
    return any(bits & select.POLLERR for _, bits in poll.poll(0))


def test_in_threads_always(tmp_path):
    before = files.set_mode("pool")
    try:
        files.write_file(tmp_path / "file", bytes(1_000_000))
        turns = 0

        def tick():
            nonlocal turns
            while True:
                syncless.sleep(0)
                turns += 1

        ticker = syncless.spawn(tick)
        for _ in range(100):  # a thread may be done before anybody has had a turn
            assert len(files.read_file(tmp_path / "file")) == 1_000_000
            if turns:
                break
        ticker.kill()
        assert turns > 0
        assert files.file_systems()
    finally:
        files.set_mode(before)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="a file cannot be evicted from memory")
def test_thread_that_has_read_may_let_go_of_the_bytes_later(tmp_path, monkeypatch):
    """The tasklet may go on before the thread has its next turn."""
    jobs, run = [], threads._many._run
    monkeypatch.setattr(threads._many, "_run", lambda job: (jobs.append(job), run(job))[1])
    path, read_in_thread = tmp_path / "file", False
    before = files.set_mode("pool")
    try:
        files.write_file(path, bytes(100_000), durable=True)
        for _ in range(20):  # the kernel may have read it again already
            with open(path) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            jobs.clear()
            assert files.read_file(path) == bytes(100_000)
            read_in_thread |= any(type(job.function).__name__ == "Transfer" for job in jobs)
    finally:
        files.set_mode(before)
    if not read_in_thread:
        pytest.skip("the file system has the file in memory always")
