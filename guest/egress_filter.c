/*
 * egress_filter.c: the filter of egress_filter.h. It is a list of what is refused rather than of what is let through,
 * as Node's own needs change with its versions: namespaces, mounts, modules, tracing, keys, other ways into the kernel
 * that have been its weak spots, new processes,
 * and sockets of other families than the internet's and the one that tells the host's addresses. A unix socket would reach
 * abstract names of the host, which no root hides.
 */
#define _GNU_SOURCE
#include "egress_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "The filter of the egress process knows no such processor"
#endif

/* numbers that begin here are of x32, another way to make the same calls */
#define X32 0x40000000u

static const unsigned refused[] = {
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_ptrace, SYS_process_vm_readv,
    SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_swapoff,
    SYS_acct, SYS_quotactl, SYS_sethostname, SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
    SYS_clock_adjtime, SYS_syslog, SYS_vhangup, SYS_personality, SYS_open_by_handle_at, SYS_name_to_handle_at,
    SYS_lookup_dcookie, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_open_tree, SYS_move_mount,
    SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_pidfd_getfd, SYS_kcmp, SYS_fanotify_init, SYS_mq_open,
    SYS_shmget, SYS_msgget, SYS_semget, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
    SYS_setresgid, SYS_setgroups, SYS_setfsuid, SYS_setfsgid, SYS_capset, SYS_move_pages, SYS_migrate_pages, SYS_mbind,
    SYS_set_mempolicy, SYS_get_mempolicy,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
#ifdef SYS_memfd_secret
    SYS_memfd_secret,
#endif
#if defined(__x86_64__)
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs, SYS__sysctl, SYS_vfork, SYS_fork,
#endif
};

/* The first argument decides: a thread may be made, another process may not, nor a namespace. */
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
static const unsigned families[] = {AF_INET, AF_INET6, AF_NETLINK};

#define MOST 256
static struct sock_filter program[MOST];
static unsigned short length;

static void put(unsigned short code, unsigned value, unsigned char yes, unsigned char no) {
  if (length < MOST) program[length] = (struct sock_filter)BPF_JUMP(code, value, yes, no);
  length++;
}

static void load(size_t offset) { put(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0); }
static void answer(unsigned action) { put(BPF_RET | BPF_K, action, 0, 0); }
static void refuse(int error) { answer(SECCOMP_RET_ERRNO | (unsigned)error); }

int egress_filter_install(void) {
  length = 0;
  load(offsetof(struct seccomp_data, arch));
  put(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  answer(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(struct seccomp_data, nr));
  put(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1);
  refuse(EPERM);
  /* Without it the C library makes threads by the older call, whose flags can be looked at. */
  put(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
  refuse(ENOSYS);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    put(BPF_JMP | BPF_JEQ | BPF_K, refused[i], 0, 1);
    refuse(EPERM);
  }
  put(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5);
  load(offsetof(struct seccomp_data, args[0]));
  put(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 1, 0);
  put(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0);
  refuse(EPERM);
  answer(SECCOMP_RET_ALLOW);
  put(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, (unsigned char)(sizeof families / sizeof *families * 2 + 2));
  load(offsetof(struct seccomp_data, args[0]));
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    put(BPF_JMP | BPF_JEQ | BPF_K, families[i], 0, 1);
    answer(SECCOMP_RET_ALLOW);
  }
  refuse(EAFNOSUPPORT);
  answer(SECCOMP_RET_ALLOW);
  if (length > MOST) return E2BIG;
  struct sock_fprog filter = {.len = length, .filter = program};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0 ? errno : 0;
}
