/*
 * egress_filter.c: the filter of egress_filter.h: what Node, V8, libuv and the C library ask the kernel for when they run
 * the egress process, in groups. A newer Node that wants more than this finds ENOSYS, as on an older kernel.
 *
 * Not on the list are, among others: namespaces, mounts, tracing, keys, io_uring, bpf, System V objects, changes of user
 * or capabilities, signals to other processes and new processes. Sockets are those of the internet and the one that tells
 * the host's addresses: a unix socket would reach abstract names of the host, which no root hides.
 */
#define _GNU_SOURCE
#include "egress/egress_filter.h"

#include <errno.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "confinement/allow_list.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* younger than some headers */
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

static const unsigned calls[] = {
    /* waiting, and what comes and goes meanwhile */
    SYS_epoll_pwait, SYS_epoll_ctl, SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_recvmsg, SYS_sendmsg, SYS_recvfrom,
    SYS_sendto, SYS_futex, SYS_close, SYS_accept4, SYS_epoll_create1, SYS_epoll_pwait2, SYS_ppoll, SYS_pselect6,
    SYS_eventfd2, SYS_pipe2,
    /* sockets */
    SYS_bind, SYS_connect, SYS_listen, SYS_accept, SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt,
    SYS_shutdown, SYS_sendmmsg, SYS_recvmmsg,
    /* memory */
    SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_membarrier, SYS_mincore, SYS_pkey_alloc,
    SYS_pkey_free, SYS_pkey_mprotect,
    /* threads */
    SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_rseq, SYS_gettid, SYS_tgkill, SYS_exit,
    SYS_exit_group, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getparam, SYS_sched_getscheduler,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min,
    /* signals */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
    SYS_sigaltstack, SYS_restart_syscall,
    /* the time */
    SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday, SYS_nanosleep, SYS_clock_nanosleep, SYS_times,
    /* files: Node's own, our code, and logs */
    SYS_openat, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_getcwd,
    SYS_getdents64, SYS_lseek, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_mkdirat,
    SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_fadvise64,
    SYS_fchmod, SYS_fchmodat, SYS_utimensat, SYS_umask, SYS_fcntl, SYS_dup, SYS_dup3, SYS_close_range, SYS_statfs, SYS_fstatfs,
    SYS_copy_file_range, SYS_sendfile,
    /* itself and the host */
    SYS_execve, SYS_getpid, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid,
    SYS_getgroups, SYS_capget, SYS_uname, SYS_sysinfo, SYS_prlimit64, SYS_getrusage, SYS_getrandom, SYS_getcpu,
#if defined(__x86_64__)
    /* older names of those above */
    SYS_arch_prctl, SYS_epoll_wait, SYS_epoll_create, SYS_poll, SYS_select, SYS_pipe, SYS_eventfd, SYS_open, SYS_stat,
    SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rename, SYS_unlink, SYS_rmdir, SYS_chmod, SYS_dup2, SYS_time,
    SYS_getrlimit, SYS_setrlimit,
#endif
};

static const unsigned families[] = {AF_INET, AF_INET6, AF_NETLINK};
static const unsigned requests[] = {FIONBIO, FIONREAD, FIOCLEX, FIONCLEX, TCGETS, TIOCGWINSZ, TIOCGPTN};
/* a thread's name, a mapping's name, and the signal that tells of the keeper's death */
static const unsigned options[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_SET_PDEATHSIG};

#define NAMESPACES \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const struct argument_rule rules[] = {
    /* A thread may be made, another process may not. clone3(), whose flags lie in memory, is not there: the C library
     * then uses this call. */
    {.call = SYS_clone, .argument = 0, .wanted = CLONE_THREAD, .unwanted = NAMESPACES, .error = EPERM},
    {.call = SYS_socket, .argument = 0, .values = families, .count = COUNT(families), .error = EAFNOSUPPORT},
    {.call = SYS_ioctl, .argument = 1, .values = requests, .count = COUNT(requests), .error = ENOTTY},
    {.call = SYS_prctl, .argument = 0, .values = options, .count = COUNT(options), .error = EINVAL},
};

int egress_filter_install(void) {
  const struct allow_list list = {.calls = calls, .call_count = COUNT(calls), .rules = rules, .rule_count = COUNT(rules)};
  return allow_list_install(&list);
}
