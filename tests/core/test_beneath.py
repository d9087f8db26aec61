"""Files that must lie beneath a directory: no path and no link opens any other file."""

import errno
import os
import stat
import threading

import pytest

from syncless._core.calls.files import OpenFile, open_beneath, open_directory, walk_parts
from tests.kernel import needs_openat2, needs_reads_at_once


@pytest.fixture(params=[pytest.param("kernel", marks=needs_openat2), "parts"])
def how(request):
    was = walk_parts(request.param == "parts")
    yield request.param
    walk_parts(was)


@pytest.fixture
def tree(tmp_path):
    """A directory with files and links, and a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("inside")
    for name, target in {
        "up": "../secret",
        "absolute": str(tmp_path / "secret"),
        "folder": "..",
        "process": "/proc/self/root",
        "a/within": "b/file",
    }.items():
        (root / name).symlink_to(target)
    return root


def opened(root, path):
    """The content; OSError."""
    directory = open_directory(os.fsencode(root))
    file = open_beneath((os.fsencode(path),), dir_fd=directory.fd)
    if isinstance(file, int):
        raise OSError(file, os.strerror(file))
    data = os.read(file.fd, 100).decode()
    assert (
        len(data) == file.size and stat.S_ISREG(file.mode) and file.modified == os.fstat(file.fd).st_mtime_ns
    )
    file.close()
    return data


def test_file_beneath_is_opened(how, tree):
    assert opened(tree, "a/b/file") == "inside"


@pytest.mark.parametrize(
    "path",
    "up absolute folder/secret process/etc/passwd ../secret a/../../secret /etc/passwd a/b/../../../secret "
    "missing a/b/file/more a//b/../../../secret".split(),
)
def test_nothing_outside_is_opened(how, tree, path):
    with pytest.raises(OSError):
        opened(tree, path)


def test_link_that_stays_inside_is_followed_where_the_kernel_watches(how, tree):
    if how == "kernel":
        assert opened(tree, "a/within") == "inside"
    else:
        with pytest.raises(OSError) as caught:
            opened(tree, "a/within")
        assert caught.value.errno == errno.ELOOP


def test_path_with_a_nul_or_a_long_name_is_an_error(how, tree):
    directory = open_directory(os.fsencode(tree))
    assert open_beneath((b"a\0b",), dir_fd=directory.fd) == errno.EINVAL
    assert open_beneath((b"x" * 5000,), dir_fd=directory.fd) == errno.ENAMETOOLONG
    assert open_beneath((), dir_fd=directory.fd) == errno.ENOENT
    with pytest.raises(TypeError):
        open_beneath(("text",), dir_fd=directory.fd)
    with pytest.raises(NotADirectoryError):
        open_directory(os.fsencode(tree / "a" / "b" / "file"))


def test_first_file_that_there_is_is_opened(how, tree):
    directory = open_directory(os.fsencode(tree))
    assert open_beneath((b"x", b"y", b"a/b/file", b"up"), dir_fd=directory.fd).which == 2
    assert open_beneath((b"x", b"y"), dir_fd=directory.fd) == errno.ENOENT


@needs_reads_at_once
def test_small_file_is_read_from_memory(how, tree):
    directory = open_directory(os.fsencode(tree))
    for most, data in ((5, None), (6, b"inside"), (7, b"inside")):
        file = open_beneath((b"a/b/file",), dir_fd=directory.fd, most=most)
        assert file.data == data and (file.fd >= 0) == (data is None) and file.size == 6
    (tree / "empty").touch()
    assert open_beneath((b"empty",), dir_fd=directory.fd).data == b""
    assert open_beneath((b"a",), dir_fd=directory.fd, most=100_000).data is None


def test_fifo_is_opened_without_its_other_end(how, tree):
    os.mkfifo(tree / "fifo")
    directory = open_directory(os.fsencode(tree))
    assert stat.S_ISFIFO(open_beneath((b"fifo",), dir_fd=directory.fd).mode)


def test_descriptor_is_closed_with_its_object(how, tree):
    directory = open_directory(os.fsencode(tree))
    fds = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        file = open_beneath((b"a/b/file",), dir_fd=directory.fd)
        del file
    file = open_beneath((b"a/b/file",), dir_fd=directory.fd)
    file.close()
    file.close()
    assert file.fd == -1 and len(os.listdir("/proc/self/fd")) == fds
    assert open_beneath((b"a/missing",), dir_fd=directory.fd) == errno.ENOENT
    assert len(os.listdir("/proc/self/fd")) == fds and OpenFile().fd == -1


def test_link_put_into_the_path_at_any_moment_leads_nowhere(how, tree, tmp_path):
    """Another thread exchanges a directory and a link to the outside for as long as paths are opened."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").write_text("secret")
    (tree / "link").symlink_to(tmp_path / "b")
    over = threading.Event()

    def exchange():
        while not over.is_set():
            os.rename(tree / "a" / "b", tree / "aside")
            os.rename(tree / "link", tree / "a" / "b")
            os.rename(tree / "a" / "b", tree / "link")
            os.rename(tree / "aside", tree / "a" / "b")

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        seen = set()
        for _ in range(3000):
            try:
                seen.add(opened(tree, "a/b/file"))
            except OSError:
                pass
    finally:
        over.set()
        thread.join()
    assert seen <= {"inside"}
