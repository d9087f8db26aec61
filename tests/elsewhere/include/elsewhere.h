/* Included before all else, it hides from the compiler names that macOS or the BSDs lack. Names for which the
   sources ask by #ifdef are undefined, all others are errors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define MSG_FASTOPEN elsewhere_fastopen /* of glibc's header, which has an enumeration below the macro */
#define MSG_NOSIGNAL elsewhere_nosignal
#include <sys/socket.h>
#undef MSG_FASTOPEN
#undef MSG_NOSIGNAL

#include <Python.h>
#include <frameobject.h>
#include <pythread.h>
#include <structmember.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#undef O_PATH
#undef POLLRDHUP
#define __APPLE__ 1
#define st_mtimespec st_mtim

#pragma GCC poison accept4 pipe2 ppoll epoll_create1 epoll_wait eventfd preadv2 pwritev2 statx sendfile splice
#pragma GCC poison signalfd syscall gettid getrandom recvmmsg sendmmsg process_vm_readv dl_iterate_phdr mremap
#pragma GCC poison memrchr mempcpy rawmemchr strchrnul secure_getenv program_invocation_name
#pragma GCC poison sigtimedwait sigwaitinfo sem_timedwait sem_clockwait timer_create clock_nanosleep fdatasync
#pragma GCC poison posix_fadvise posix_fallocate pthread_condattr_setclock pthread_getcpuclockid
#pragma GCC poison pthread_mutex_timedlock pthread_setaffinity_np pthread_timedjoin_np pthread_tryjoin_np
#pragma GCC poison sched_getaffinity sched_getcpu sched_setaffinity
#pragma GCC poison CLOCK_BOOTTIME CLOCK_MONOTONIC_COARSE CLOCK_REALTIME_COARSE EBADFD F_OFD_SETLK MAP_POPULATE
#pragma GCC poison MSG_ERRQUEUE MSG_MORE O_DIRECT O_NOATIME O_TMPFILE RWF_NOWAIT SIGPOLL SIGRTMIN SIOCOUTQ
#pragma GCC poison SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED TCP_CORK TCP_INFO TCP_QUICKACK TCP_USER_TIMEOUT ucred
#pragma GCC poison st_atim st_ctim st_mtim
