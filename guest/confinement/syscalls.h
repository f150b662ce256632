/*
 * syscalls.h: which system calls a sandbox may make. seccomp.c turns these tables into the filter.
 *
 * What is in no table answers ENOSYS, as on a kernel that does not have the call: C libraries and language runtimes
 * have a fallback for that, and calls that the kernel gains later stay shut. REFUSED is for calls whose callers rather
 * expect to lack a privilege; they answer EPERM. CHECKED calls depend on an argument.
 *
 * Deliberately in no table:
 *   clone3               its flags lie in memory, which a filter cannot read; libraries fall back to clone
 *   io_uring_*           a second way to make system calls that no filter sees; libuv and others fall back silently
 *   io_setup and its kin all sandboxes and the host share one count of events (fs.aio-max-nr); databases fall back
 *   mbind                what it says of a file in memory is kept with the file, and charged to no cgroup
 *   memfd_secret, mbind's relatives move_pages and migrate_pages, process_madvise, process_mrelease, kcmp,
 *   modify_ldt, uselib, ustat, sysfs, statmount, listmount, lsm_*, file_setattr and other rarities: kernel code that no
 *   ordinary program needs reached
 *
 * Deliberately allowed:
 *   ptrace, process_vm_*   debuggers are everyday tools, and since Linux 4.8 a tracer cannot get around the filter. The
 *                          kernel lets only equals trace each other; PID 1 is not dumpable, and no program inside
 *                          can have CAP_SYS_PTRACE, which a non-dumpable target asks for
 *   prctl                  what is dangerous in it (PR_SET_MM …) asks for capabilities that no program inside has
 *   seccomp, landlock_*    a program may only narrow itself further; the strictest of all filters decides. It cannot
 *                          listen to a filter of its own: the agent does (grants.h), and the kernel allows one listener
 *   sched_*                real-time classes ask for CAP_SYS_NICE outside or an RLIMIT_RTPRIO above 0
 *   mknod                  FIFOs and sockets; device nodes ask for CAP_MKNOD outside
 *   chroot                 sbuild, debootstrap and friends; the root below is one that pivot_root made
 */
#ifndef SANDKEEP_SYSCALLS_H
#define SANDKEEP_SYSCALLS_H

#include <asm/unistd.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Calls that are younger than some kernel headers. From 424 on the numbers are the same on every architecture. */
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 441
#endif
#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif
#ifndef __NR_quotactl_fd
#define __NR_quotactl_fd 443
#endif
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif
#ifndef __NR_futex_waitv
#define __NR_futex_waitv 449
#endif
#ifndef __NR_set_mempolicy_home_node
#define __NR_set_mempolicy_home_node 450
#endif
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake 454
#define __NR_futex_wait 455
#define __NR_futex_requeue 456
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif
#if defined(__x86_64__) && !defined(__NR_uretprobe)
#define __NR_uretprobe 335
#endif
#if defined(__x86_64__) && !defined(__NR_uprobe)
#define __NR_uprobe 336
#endif

static const uint16_t SYSCALLS_ALLOWED[] = {
    /* reading and writing */
    __NR_read, __NR_write, __NR_readv, __NR_writev, __NR_pread64, __NR_pwrite64, __NR_preadv, __NR_pwritev,
    __NR_preadv2, __NR_pwritev2, __NR_lseek, __NR_sendfile, __NR_splice, __NR_tee, __NR_vmsplice,
    __NR_readahead, __NR_fadvise64, __NR_cachestat,

    /* opening and describing files */
    __NR_openat, __NR_openat2, __NR_close, __NR_close_range, __NR_dup, __NR_dup3, __NR_fcntl, __NR_flock,
    __NR_faccessat, __NR_faccessat2, __NR_fstat, __NR_newfstatat, __NR_statx,
    __NR_getdents64, __NR_readlinkat, __NR_getcwd, __NR_chdir, __NR_fchdir, __NR_chroot, __NR_umask,

    /* changing files */
    __NR_truncate, __NR_ftruncate, __NR_fallocate, __NR_fsync, __NR_fdatasync, __NR_syncfs, __NR_sync_file_range,
    __NR_mkdirat, __NR_mknodat, __NR_unlinkat, __NR_linkat, __NR_symlinkat, __NR_renameat2,
    __NR_fchmod, __NR_fchmodat, __NR_fchmodat2, __NR_fchown, __NR_fchownat, __NR_utimensat,
    __NR_setxattr, __NR_lsetxattr, __NR_fsetxattr, __NR_getxattr, __NR_lgetxattr, __NR_fgetxattr,
    __NR_listxattr, __NR_llistxattr, __NR_flistxattr, __NR_removexattr, __NR_lremovexattr, __NR_fremovexattr,
    __NR_setxattrat, __NR_getxattrat, __NR_listxattrat, __NR_removexattrat,

    /* waiting for several things, and telling of events */
    __NR_ppoll, __NR_pselect6, __NR_epoll_create1, __NR_epoll_ctl, __NR_epoll_pwait, __NR_epoll_pwait2,
    __NR_eventfd2, __NR_signalfd4, __NR_inotify_init1, __NR_inotify_add_watch, __NR_inotify_rm_watch, __NR_pipe2,
    __NR_timerfd_create, __NR_timerfd_settime, __NR_timerfd_gettime,

    /* sockets that exist already; making one is CHECKED */
    __NR_bind, __NR_listen, __NR_accept, __NR_accept4, __NR_connect, __NR_shutdown, __NR_getsockname, __NR_getpeername,
    __NR_getsockopt, __NR_sendto, __NR_recvfrom, __NR_sendmsg, __NR_recvmsg, __NR_sendmmsg,
    __NR_recvmmsg,

    /* memory */
    __NR_brk, __NR_mmap, __NR_munmap, __NR_mprotect, __NR_mremap, __NR_madvise, __NR_msync, __NR_mincore, __NR_mseal,
    __NR_mlock, __NR_mlock2, __NR_munlock, __NR_mlockall, __NR_munlockall, __NR_remap_file_pages, __NR_memfd_create,
    __NR_pkey_mprotect, __NR_pkey_alloc, __NR_pkey_free, __NR_membarrier, __NR_map_shadow_stack,
    __NR_get_mempolicy, __NR_set_mempolicy, __NR_set_mempolicy_home_node,

    /* processes and threads; making one is CHECKED */
    __NR_execve, __NR_execveat, __NR_exit, __NR_exit_group, __NR_wait4, __NR_waitid, __NR_getpid, __NR_getppid,
    __NR_gettid, __NR_getpgid, __NR_setpgid, __NR_getsid, __NR_setsid, __NR_set_tid_address, __NR_set_robust_list,
    __NR_get_robust_list, __NR_rseq, __NR_futex, __NR_futex_waitv, __NR_futex_wake, __NR_futex_wait, __NR_futex_requeue,
    __NR_pidfd_open, __NR_pidfd_send_signal, __NR_ptrace, __NR_process_vm_readv, __NR_process_vm_writev,
    __NR_landlock_create_ruleset, __NR_landlock_add_rule, __NR_landlock_restrict_self,

    /* signals */
    __NR_kill, __NR_tkill, __NR_tgkill, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigpending, __NR_rt_sigsuspend,
    __NR_rt_sigtimedwait, __NR_rt_sigqueueinfo, __NR_rt_tgsigqueueinfo, __NR_rt_sigreturn, __NR_sigaltstack,
    __NR_restart_syscall,

    /* who one is */
    __NR_getuid, __NR_geteuid, __NR_getgid, __NR_getegid, __NR_getresuid, __NR_getresgid, __NR_getgroups,
    __NR_setuid, __NR_setgid, __NR_setreuid, __NR_setregid, __NR_setresuid, __NR_setresgid, __NR_setfsuid,
    __NR_setfsgid, __NR_setgroups, __NR_capget, __NR_capset,

    /* scheduling and limits of oneself; on others see CHECKED */
    __NR_sched_yield, __NR_sched_getaffinity, __NR_sched_getattr, __NR_sched_getparam, __NR_sched_getscheduler,
    __NR_sched_get_priority_max, __NR_sched_get_priority_min, __NR_sched_rr_get_interval, __NR_getpriority,
    __NR_setpriority, __NR_ioprio_get, __NR_ioprio_set, __NR_getrlimit, __NR_getrusage, __NR_getcpu,

    /* clocks and timers */
    __NR_clock_gettime, __NR_clock_getres, __NR_clock_nanosleep, __NR_nanosleep, __NR_gettimeofday, __NR_times,
    __NR_getitimer, __NR_setitimer, __NR_timer_create, __NR_timer_settime, __NR_timer_gettime, __NR_timer_getoverrun,
    __NR_timer_delete,

    /* System V and POSIX message passing, in an IPC namespace of its own */
    __NR_shmget, __NR_shmat, __NR_shmdt, __NR_shmctl, __NR_semget, __NR_semop, __NR_semtimedop, __NR_semctl,
    __NR_msgget, __NR_msgsnd, __NR_msgrcv, __NR_msgctl, __NR_mq_open, __NR_mq_unlink, __NR_mq_timedsend,
    __NR_mq_timedreceive, __NR_mq_notify, __NR_mq_getsetattr,

    /* facts and luck */
    __NR_uname, __NR_getrandom,

#ifdef __NR_renameat
    __NR_renameat,
#endif

#ifdef __x86_64__
    /* the older forms of the above, which later architectures never had */
    __NR_open, __NR_creat, __NR_access, __NR_stat, __NR_lstat, __NR_readlink, __NR_getdents, __NR_mkdir, __NR_rmdir,
    __NR_mknod, __NR_link, __NR_unlink, __NR_symlink, __NR_rename, __NR_chmod, __NR_chown, __NR_lchown, __NR_utime,
    __NR_utimes, __NR_futimesat, __NR_dup2, __NR_pipe, __NR_poll, __NR_select, __NR_epoll_create, __NR_epoll_wait,
    __NR_eventfd, __NR_signalfd, __NR_inotify_init, __NR_fork, __NR_vfork, __NR_getpgrp, __NR_pause, __NR_alarm,
    __NR_time,

    /* thread-local storage, and control-flow protection */
    __NR_arch_prctl,

    /* not called by programs: the kernel inserts these when a process outside traces a program; elsewhere they fail */
    __NR_uretprobe, __NR_uprobe,
#endif
};

static const uint16_t SYSCALLS_REFUSED[] = {
    /* mounts */
    __NR_mount, __NR_umount2, __NR_pivot_root, __NR_open_tree, __NR_open_tree_attr, __NR_move_mount, __NR_mount_setattr,
    __NR_fsopen, __NR_fsconfig, __NR_fsmount, __NR_fspick, __NR_quotactl, __NR_quotactl_fd,

    /* joining namespaces; leaving some is CHECKED */
    __NR_setns,

    /* files by their inode number, past every directory's permissions */
    __NR_open_by_handle_at, __NR_fanotify_init, __NR_fanotify_mark,

    /* the kernel itself: its code, its log, its keys, its tracing */
    __NR_init_module, __NR_finit_module, __NR_delete_module, __NR_kexec_load, __NR_bpf, __NR_perf_event_open,
    __NR_userfaultfd, __NR_syslog, __NR_add_key, __NR_request_key, __NR_keyctl,
#ifdef __NR_lookup_dcookie
    __NR_lookup_dcookie,
#endif
#ifdef __NR_kexec_file_load
    __NR_kexec_file_load,
#endif

    /* the host: power, swap, accounting, clock, names, consoles, ports */
    __NR_reboot, __NR_swapon, __NR_swapoff, __NR_acct, __NR_settimeofday, __NR_clock_settime, __NR_adjtimex,
    __NR_clock_adjtime, __NR_sethostname, __NR_setdomainname, __NR_vhangup,
#ifdef __x86_64__
    __NR_iopl, __NR_ioperm,
#endif
};

/* The decisions that look at arguments; each is written out in seccomp.c. */
enum syscall_check {
  CHECK_CLONE,       /* no new namespace */
  CHECK_UNSHARE,     /* no new namespace */
  CHECK_SOCKET,      /* local and TCP; UDP and routing information through the agent */
  CHECK_SOCKETPAIR,  /* local only */
  CHECK_IOCTL,       /* IOCTLS_ALLOWED; no typing into a terminal, no other line discipline */
  CHECK_PERSONALITY, /* the plain one, with or without random addresses */
  CHECK_NOT_INIT,    /* any process but PID 1 */
  CHECK_PRLIMIT,     /* any process but PID 1, any limit but that of core dumps */
  CHECK_SETRLIMIT,   /* any limit but that of core dumps */
  CHECK_HANDLE,      /* no file handles: EOPNOTSUPP, as from a file system that has none */
  CHECK_SYNC,        /* done without doing anything */
  CHECK_COPY,        /* not where it could clone from one drive to another */
  CHECK_SOCKET_OPTION, /* the size of a receive buffer only through the agent; none of SOCKET_OPTIONS */
  CHECK_SHOWN,         /* tells of the host: through the agent, which tells of the sandbox */
  CHECK_SECCOMP,       /* filters only as many as the agent lets through */
  CHECK_PRCTL,         /* the same */
  CHECK_GETFD,         /* the agent only */
};

/*
 * Commands of ioctl() that ordinary programs use, besides those of terminals. Of btrfs, which drives are on, only what
 * shares content between files: its other commands make subvolumes, for example, which no limit of the drive covers.
 */
#define IOCTL_TERMINAL_FIRST 0x5401u
#define IOCTL_TERMINAL_LAST 0x5460u
#define IOCTL_SOCKETS 0x8900u

static const uint32_t IOCTLS_ALLOWED[] = {
    /* terminals whose numbers say how long the argument is: TCGETS2, TCSETS2, TCSETSW2, TCSETSF2 and of ptmx */
    0x802c542a, 0x402c542b, 0x402c542c, 0x402c542d, TIOCGPTN, TIOCSPTLCK, TIOCGDEV, TIOCSIG, TIOCGPKT, TIOCGPTLCK,
    TIOCGEXCL,

    /* files: attributes, where they lie, sharing of content */
    FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, FIGETBSZ, FS_IOC_FIEMAP, FICLONE, FICLONERANGE,
    FIDEDUPERANGE,

    /* a process's own memory, for profilers: PROCMAP_QUERY and PAGEMAP_SCAN */
    0xc0686611, 0xc0606610,

    /* sockets and interfaces, read only */
    FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP, SIOCATMARK, SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR,
    SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN,
    SIOCGIFMAP, SIOCETHTOOL, SIOCOUTQNSD,

    /* how much chance the kernel has collected */
    RNDGETENTCNT,

    /* the agent, for grants.h; a program cannot have such a descriptor */
    SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND, SECCOMP_IOCTL_NOTIF_ADDFD, SECCOMP_IOCTL_NOTIF_ID_VALID,
};

/*
 * Options of sockets for which the kernel keeps memory that it charges to no cgroup, or numbers of which the whole host has one
 * list; those of a level stand together. They answer ENOPROTOOPT, as a kernel that was built without them; or nothing, and do nothing, where libraries cannot
 * go on without.
 */
static const struct {
  uint32_t level, name;
  bool pretend;
} SOCKET_OPTIONS[] = {
    /* filters are compiled, as those of system calls are (filters.h); copies of what was sent wait to be read */
    {SOL_SOCKET, SO_ATTACH_FILTER, false},
    {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, false},
    {SOL_SOCKET, 37 /* SO_TIMESTAMPING_OLD */, false},
    {SOL_SOCKET, 65 /* SO_TIMESTAMPING_NEW */, false},

    /* keys of peers: TCP_MD5SIG, TCP_MD5SIG_EXT, TCP_AO_ADD_KEY, TCP_AO_DEL_KEY, TCP_AO_INFO */
    {IPPROTO_TCP, 14, false}, {IPPROTO_TCP, 32, false}, {IPPROTO_TCP, 38, false}, {IPPROTO_TCP, 39, false},
    {IPPROTO_TCP, 40, false},

    /* datagrams that are begun and never sent: UDP_CORK */
    {IPPROTO_UDP, 1, false},

    /* IP_RECVERR, which resolvers set, keeps what was refused; IP_BLOCK_SOURCE and the other lists of senders of multicasts */
    {IPPROTO_IP, 11, true}, {IPPROTO_IP, 38, false}, {IPPROTO_IP, 39, false}, {IPPROTO_IP, 41, false},
    {IPPROTO_IP, 43, false}, {IPPROTO_IP, 46, false}, {IPPROTO_IP, 48, false},

    /* IPV6_RECVERR, IPV6_FLOWLABEL_MGR and the lists */
    {IPPROTO_IPV6, 25, true}, {IPPROTO_IPV6, 32, false}, {IPPROTO_IPV6, 43, false}, {IPPROTO_IPV6, 46, false},
    {IPPROTO_IPV6, 48, false},
};

static const struct {
  uint16_t number;
  enum syscall_check check;
} SYSCALLS_CHECKED[] = {
    {__NR_clone, CHECK_CLONE},
    {__NR_unshare, CHECK_UNSHARE},
    {__NR_socket, CHECK_SOCKET},
    {__NR_socketpair, CHECK_SOCKETPAIR},
    {__NR_ioctl, CHECK_IOCTL},
    {__NR_personality, CHECK_PERSONALITY},
    {__NR_sched_setaffinity, CHECK_NOT_INIT},
    {__NR_sched_setattr, CHECK_NOT_INIT},
    {__NR_sched_setparam, CHECK_NOT_INIT},
    {__NR_sched_setscheduler, CHECK_NOT_INIT},
    {__NR_prlimit64, CHECK_PRLIMIT},
    {__NR_setrlimit, CHECK_SETRLIMIT},
    {__NR_name_to_handle_at, CHECK_HANDLE},
    {__NR_sync, CHECK_SYNC},
    {__NR_copy_file_range, CHECK_COPY},
    {__NR_setsockopt, CHECK_SOCKET_OPTION},
    {__NR_statfs, CHECK_SHOWN},
    {__NR_fstatfs, CHECK_SHOWN},
    {__NR_sysinfo, CHECK_SHOWN},
    {__NR_seccomp, CHECK_SECCOMP},
    {__NR_prctl, CHECK_PRCTL},
    {__NR_pidfd_getfd, CHECK_GETFD},
};

#endif
