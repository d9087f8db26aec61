"""A file system on which operations take their time: ``python -m tests.patches.slowfs SOURCE MOUNTPOINT
SECONDS [OPERATION...]``.

It shows what lies in SOURCE, through FUSE. All operations are slow, or those that are named. Runs until it is
unmounted.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
import time


def why_not() -> str | None:
    """Why it cannot be had on this machine, or None."""
    if not os.path.exists("/dev/fuse"):
        return "this machine has no /dev/fuse"
    if not (ctypes.util.find_library("fuse") or ctypes.util.find_library("fuse3")):
        return "libfuse is not installed"
    if os.geteuid() != 0 and not (shutil.which("fusermount3") or shutil.which("fusermount")):
        return "fusermount is not installed"
    try:
        import mfusepy  # noqa: F401
    except ImportError:
        return "mfusepy is not installed (pip install --group clients)"
    return None


def mount(source: str, point: str, seconds: float, *slow: str) -> subprocess.Popen[bytes]:
    """Returns when the file system answers. RuntimeError with its own words if it does not."""
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.patches.slowfs",
        source,
        point,
        str(seconds),
        *slow,
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    for _ in range(200):
        if os.path.ismount(point):
            return process
        if process.poll() is not None:
            break
        time.sleep(0.05)
    process.kill()
    raise RuntimeError(f"it could not be mounted: {process.communicate()[1].decode()}")


def unmount(process: subprocess.Popen[bytes], point: str) -> None:
    command = (
        ["umount", "-l", point]
        if os.geteuid() == 0
        else [shutil.which("fusermount3") or "fusermount", "-uz", point]
    )
    subprocess.run(command, check=True)
    process.wait(60)
    assert process.stderr is not None
    process.stderr.close()


def main(source: str, point: str, seconds: float, *slow: str) -> None:
    import mfusepy

    STAT = ("st_atime_ns", "st_ctime_ns", "st_gid", "st_mode", "st_mtime_ns", "st_nlink", "st_size", "st_uid")

    class Slow(mfusepy.Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path, fh=None):
            found = os.lstat(path)
            return {name.removesuffix("_ns"): getattr(found, name) for name in STAT}

        def access(self, path, amode):
            if not os.access(path, amode):
                raise mfusepy.FuseOSError(13)

        def readdir(self, path, fh):
            return [".", "..", *os.listdir(path)]

        def statfs(self, path):
            found = os.statvfs(path)
            return {
                name: getattr(found, name)
                for name in ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_files", "f_frsize", "f_namemax")
            }

        def open(self, path, flags):
            return os.open(path, flags)

        def create(self, path, mode, fi=None):
            return os.open(path, os.O_RDWR | os.O_CREAT, mode)

        def read(self, path, size, offset, fh):
            return os.pread(fh, size, offset)

        def write(self, path, data, offset, fh):
            return os.pwrite(fh, data, offset)

        def truncate(self, path, length, fh=None):
            os.truncate(path, length)

        def flush(self, path, fh):
            return 0

        def fsync(self, path, datasync, fh):
            return 0

        def release(self, path, fh):
            os.close(fh)

        def readlink(self, path):
            return os.readlink(path)

        def symlink(self, target, source_of_link):
            os.symlink(source_of_link, target)

        def link(self, target, old):
            os.link(source + old, target)

        def rename(self, old, new):
            os.rename(old, source + new)

        def unlink(self, path):
            os.unlink(path)

        def mkdir(self, path, mode):
            os.mkdir(path, mode)

        def rmdir(self, path):
            os.rmdir(path)

        def chmod(self, path, mode):
            os.chmod(path, mode)

        def chown(self, path, uid, gid):
            os.chown(path, uid, gid)

        def utimens(self, path, times=None):
            os.utime(path, ns=times)

    def slowly(operation, seconds):
        def run(self, path, *args):
            time.sleep(seconds)
            return operation(self, source + path, *args)

        return run

    for name, member in list(vars(Slow).items()):
        if not name.startswith("_") and callable(member):
            setattr(Slow, name, slowly(member, seconds if not slow or name in slow else 0))
    mfusepy.FUSE(Slow(), point, foreground=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *sys.argv[4:])
