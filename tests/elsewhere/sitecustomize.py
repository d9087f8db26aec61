"""Hides names of the standard library that macOS or the BSDs lack, in each Python whose path has this folder.

A Python imports a module of this name when it starts. macOS had no os.waitid before Python 3.13.
"""

import _signal
import _socket
import fcntl
import os
import posix
import select
import time

LINUX = {
    (os, posix): """
        copy_file_range eventfd eventfd_read eventfd_write fdatasync getrandom getresgid getresuid getxattr
        listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity
        sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam
        sched_setscheduler setns setresgid setresuid setxattr splice unshare waitid
        EFD_CLOEXEC EFD_NONBLOCK EFD_SEMAPHORE O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE P_PIDFD
        RWF_HIPRI RWF_NOWAIT SPLICE_F_MORE SPLICE_F_MOVE SPLICE_F_NONBLOCK
        """,
    (_socket,): """
        AF_ALG AF_CAN AF_NETLINK AF_PACKET AF_QIPCRTR AF_TIPC AF_VSOCK IP_BIND_ADDRESS_NO_PORT IP_FREEBIND
        IP_TRANSPARENT MSG_CMSG_CLOEXEC MSG_CONFIRM MSG_ERRQUEUE MSG_FASTOPEN MSG_MORE MSG_NOSIGNAL
        SCM_CREDENTIALS SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE SO_DOMAIN SO_INCOMING_CPU SO_MARK
        SO_PASSCRED SO_PASSSEC SO_PEERCRED SO_PEERSEC SO_PRIORITY SO_PROTOCOL TCP_CONGESTION TCP_CORK
        TCP_DEFER_ACCEPT TCP_INFO TCP_LINGER2 TCP_QUICKACK TCP_SYNCNT TCP_USER_TIMEOUT TCP_WINDOW_CLAMP
        """,
    (_signal,): """
        SIGCLD SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT sigtimedwait sigwaitinfo struct_siginfo
        """,
    (select,): " ".join(["epoll", "POLLRDHUP", *(name for name in dir(select) if name.startswith("EPOLL"))]),
    (time,): "CLOCK_BOOTTIME CLOCK_TAI pthread_getcpuclockid",
    (fcntl,): "F_ADD_SEALS F_GETPIPE_SZ F_GET_SEALS F_OFD_SETLK F_OFD_SETLKW F_SETPIPE_SZ",
}

if hasattr(os, "process_cpu_count"):
    os.process_cpu_count = os.cpu_count  # it calls sched_getaffinity where that is known
for modules, names in LINUX.items():
    for module in modules:
        for name in names.split():
            vars(module).pop(name, None)
os.__all__[:] = [name for name in os.__all__ if hasattr(os, name)]
