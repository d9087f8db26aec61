"""Tells a program of 2010 what to call in place of the original Syncless's module patch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncless.tools.former import teller

_TODAY = {
    "patch_concurrence": "syncless.stackless, whose tasklets and channels were Concurrence's,",
    "patch_eventlet": "syncless.eventlet.install()",
    "patch_gevent": "syncless.contrib.gevent.install()",
    "patch_mysql_connector": "syncless.patches.patch_socket()",
    "patch_os": "syncless.patches.patch_subprocess()",
    "patch_popen2": "syncless.patches.patch_subprocess()",
    "patch_pymysql": "syncless.patches.patch_socket()",
    "patch_select": "syncless.patches.patch_select()",
    "patch_socket": "syncless.patches.patch_socket()",
    "patch_ssl": "syncless.patches.patch_ssl()",
    "patch_stderr": "syncless.patches.patch_input()",
    "patch_stdin_and_stdout": "syncless.patches.patch_input()",
    "patch_subprocess": "syncless.patches.patch_subprocess()",
    "patch_time": "syncless.patches.patch_time()",
}

if not TYPE_CHECKING:  # a checker would take every name for one that is there
    __getattr__ = teller(__name__, _TODAY, "syncless.patches.patch_all()")
