"""Privileges: switches a process that was started as root to another user and group, once it has what only
root can get.

Order matters: the supplementary groups and the group are changed while the process is still root, and the
user last. Each time the real, effective and saved ids are set, so that nothing can restore them. `drop()`
tries to restore them, and raises an error if it can.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd

from syncless.io.guardedfiles import Owner
from syncless.tools.records import record


class PrivilegesError(ValueError):
    """The process cannot switch to the user or group; the message names the option."""


@record(frozen=True)
class Privileges:
    """The user and group that serve. None means those of the process."""

    uid: int | None = None
    gid: int | None = None
    name: str | None = None
    """The user's name, whose supplementary groups the process gets."""

    @classmethod
    def of(cls, user: str | int | None, group: str | int | None) -> Privileges | None:
        """Return the privileges of a user and a group, by name or number; the default is the user's own
        group. Return None if nothing changes. Raise PrivilegesError if there is no such user or group."""
        if user is None and group is None:
            return None
        uid, gid, name = _user(user)
        if group is not None:
            gid = _group(group)
        if gid is None:
            raise PrivilegesError(f"--user {user}: there is no such user, so name its group, too: --group")
        wanted = cls(uid, gid, name)
        if os.geteuid() != 0 and not wanted.held():
            option = f"--user {user}" if uid not in (None, os.geteuid()) else f"--group {group}"
            raise PrivilegesError(f"{option} needs root: this process belongs to user {os.geteuid()}")
        return wanted

    def held(self) -> bool:
        """Return whether the process already runs as that user and group."""
        return self.uid in (None, os.geteuid()) and self.gid in (None, os.getegid())

    def owner(self) -> str:
        """Return USER:GROUP, the owner of the UNIX sockets."""
        return f"{'' if self.uid is None else self.uid}:{self.gid}"

    @property
    def ids(self) -> Owner:
        """Return the owner for files that root makes, so that they can be reopened after the drop."""
        return -1 if self.uid is None else self.uid, -1 if self.gid is None else self.gid

    def drop(self) -> None:
        """Switch to that user and group permanently. Raise OSError if the system refuses."""
        if os.geteuid() != 0:
            return  # of() has seen that nothing is to change
        assert self.gid is not None
        if self.name is not None:
            os.initgroups(self.name, self.gid)
        else:
            os.setgroups([self.gid])
        _become("gid", self.gid)
        if self.uid is None:
            return
        _become("uid", self.uid)
        if self.uid != 0:
            with contextlib.suppress(PermissionError):
                os.setuid(0)
                raise PrivilegesError("cannot give up the privileges of root")


def _become(kind: str, number: int) -> None:
    """Set the real, effective and saved id."""
    if hasattr(os, f"setres{kind}"):
        getattr(os, f"setres{kind}")(number, number, number)
    else:
        getattr(os, f"set{kind}")(number)  # macOS: of root, it sets all three


def _user(user: str | int | None) -> tuple[int | None, int | None, str | None]:
    if user is None:
        return None, None, None
    try:
        found = pwd.getpwuid(int(user)) if str(user).isdecimal() else pwd.getpwnam(str(user))
    except KeyError:
        if str(user).isdecimal():
            return int(user), None, None  # of a container, mostly
        raise PrivilegesError(f"--user {user}: there is no such user") from None
    return found.pw_uid, found.pw_gid, found.pw_name


def _group(group: str | int) -> int:
    if str(group).isdecimal():
        return int(group)
    try:
        return grp.getgrnam(str(group)).gr_gid
    except KeyError:
        raise PrivilegesError(f"--group {group}: there is no such group") from None
