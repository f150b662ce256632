/* seccomp_check.c: see seccomp_check.h. */
#define _GNU_SOURCE
#include "confinement/seccomp_check.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define NEW_NAMESPACES \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* allowed to the agent, which shows the pass above three arguments from `first` on; `otherwise` to everybody else */
static void answer_unless_passed(struct program *p, const struct seccomp_pass *pass, int first, uint32_t otherwise) {
  for (int i = 0; i < 3; i++) {
    load_upper_half(p, first + i);
    answer_unless(p, pass->words[i], otherwise);
  }
  answer(p, ALLOW);
}

static void answer_by_agent(struct program *p, const struct seccomp_pass *pass, int first) {
  if (pass) answer_unless_passed(p, pass, first, SECCOMP_RET_USER_NOTIF);
  else answer(p, ALLOW);
}

/* the third argument is the filter; without one the call fails, by which libraries find out what the kernel knows */
static void answer_filter(struct program *p, const struct seccomp_pass *pass) {
  load_whether_set(p, 2);
  answer_if(p, 0, ALLOW);
  answer(p, pass ? SECCOMP_RET_USER_NOTIF : ALLOW);
}

/* socket(family, type, protocol) */
static void check_socket(struct program *p, const struct seccomp_pass *pass) {
  load_argument(p, 0);
  answer_if(p, AF_UNIX, ALLOW);

  size_t netlink = when(p, AF_NETLINK);
  load_argument(p, 2);
  size_t route = when(p, NETLINK_ROUTE);
  answer_by_agent(p, pass, 0);
  done(p, route);
  /* sudo opens NETLINK_AUDIT and takes only this answer for "there is no audit here" */
  answer(p, FAIL(EPROTONOSUPPORT));
  done(p, netlink);

  put(p, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
  answer_unless(p, AF_INET6, FAIL(EAFNOSUPPORT));

  load_argument(p, 1);
  /* above these bits are SOCK_CLOEXEC and SOCK_NONBLOCK */
  put(p, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  size_t stream = when(p, SOCK_STREAM);
  load_argument(p, 2);
  answer_if(p, 0, ALLOW);
  answer_if(p, IPPROTO_TCP, ALLOW);
  answer(p, FAIL(EPROTONOSUPPORT));
  done(p, stream);

  size_t datagram = when(p, SOCK_DGRAM);
  load_argument(p, 2);
  put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0);
  answer_unless(p, IPPROTO_UDP, FAIL(EPROTONOSUPPORT));
  answer_by_agent(p, pass, 0);
  done(p, datagram);

  answer_if(p, SOCK_RAW, FAIL(EPERM));
  answer_if(p, SOCK_PACKET, FAIL(EPERM));
  answer(p, FAIL(ESOCKTNOSUPPORT));
}

/* ioctl(fd, command, …): what is in no table does not exist, as for a file that knows no such command */
static void check_ioctl(struct program *p, unsigned flags) {
  load_argument(p, 1);
  if (flags & SECCOMP_NO_CLONES) {
    answer_if(p, FICLONE, FAIL(EOPNOTSUPP));
    answer_if(p, FICLONERANGE, FAIL(EOPNOTSUPP));
    answer_if(p, FIDEDUPERANGE, FAIL(EOPNOTSUPP));
  }
  answer_if(p, TIOCSTI, FAIL(EPERM));
  answer_if(p, TIOCLINUX, FAIL(EPERM));
  answer_if(p, TIOCSETD, FAIL(EPERM));
  /* terminals, and what every file knows: FIONREAD, FIOCLEX and so on */
  put(p, BPF_JMP | BPF_JGE | BPF_K, IOCTL_TERMINAL_FIRST, 0, 2);
  put(p, BPF_JMP | BPF_JGE | BPF_K, IOCTL_TERMINAL_LAST + 1, 1, 0);
  answer(p, ALLOW);
  for (size_t i = 0; i < sizeof IOCTLS_ALLOWED / sizeof *IOCTLS_ALLOWED; i++) answer_if(p, IOCTLS_ALLOWED[i], ALLOW);
  /* changing interfaces takes a privilege that no program has; some of it would load modules before it asks */
  put(p, BPF_ALU | BPF_AND | BPF_K, 0xffffff00, 0, 0);
  answer_if(p, IOCTL_SOCKETS, FAIL(EPERM));
  answer(p, FAIL(ENOTTY));
}

/* prlimit64(pid, resource, new, old) */
static void check_prlimit(struct program *p) {
  load_argument(p, 0);
  /* equals may set each other's limits, dumpable or not: root inside would starve PID 1 of processor time and files */
  answer_if(p, 1, FAIL(EPERM));
  load_argument(p, 1);
  answer_unless(p, RLIMIT_CORE, ALLOW);
  load_whether_set(p, 2);
  answer_if(p, 0, ALLOW); /* only asks what the limit is */
  load_whether_set(p, 3);
  /* seccomp_install() has set what keeps the host's core dump helper out; sudo complains when it may not set it */
  answer_if(p, 0, PRETEND);
  answer(p, FAIL(EPERM)); /* wants the old limit as well, which pretending cannot give */
}

/* setsockopt(fd, level, name, …) */
static void check_socket_option(struct program *p, const struct seccomp_pass *pass) {
  const size_t count = sizeof SOCKET_OPTIONS / sizeof *SOCKET_OPTIONS;
  for (size_t i = 0; i < count;) {
    uint32_t level = SOCKET_OPTIONS[i].level;
    load_argument(p, 1);
    size_t others = when(p, level);
    load_argument(p, 2);
    for (; i < count && SOCKET_OPTIONS[i].level == level; i++)
      answer_if(p, SOCKET_OPTIONS[i].name, SOCKET_OPTIONS[i].pretend ? PRETEND : FAIL(ENOPROTOOPT));
    done(p, others);
  }
  load_argument(p, 1);
  answer_unless(p, SOL_SOCKET, ALLOW);
  load_argument(p, 2);
  answer_unless(p, SO_RCVBUF, ALLOW);
  answer_by_agent(p, pass, 0);
}

void seccomp_put_check(struct program *p, enum syscall_check check, const struct seccomp_pass *pass, unsigned flags) {
  switch (check) {
    case CHECK_CLONE:
      /* the kernel takes the lower half of the flags, in which CLONE_NEWTIME's bit belongs to the exit signal */
      load_argument(p, 0);
      answer_if_any(p, NEW_NAMESPACES, FAIL(EPERM));
      answer(p, ALLOW);
      return;
    case CHECK_UNSHARE:
      /* says what may be unshared, not what may not: the kernel still gains flags here */
      load_upper_half(p, 0);
      answer_unless(p, 0, FAIL(EPERM));
      load_argument(p, 0);
      answer_if_any(p, ~(uint32_t)(CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM),
                    FAIL(EPERM));
      answer(p, ALLOW);
      return;
    case CHECK_SOCKET:
      check_socket(p, pass);
      return;
    case CHECK_SOCKETPAIR:
      /* the kernel makes both sockets, loading the family's module, before it finds that they cannot be paired */
      load_argument(p, 0);
      answer_unless(p, AF_UNIX, FAIL(EAFNOSUPPORT));
      answer(p, ALLOW);
      return;
    case CHECK_IOCTL:
      check_ioctl(p, flags);
      return;
    case CHECK_PERSONALITY:
      load_argument(p, 0);
      answer_if(p, PER_LINUX, ALLOW);
      answer_if(p, 0xffffffff, ALLOW); /* only asks */
      answer_if(p, ADDR_NO_RANDOMIZE, ALLOW); /* gdb and sanitizers, for their own children */
      answer(p, FAIL(EPERM));
      return;
    case CHECK_NOT_INIT:
      /* equals may move each other to the idle class or onto one processor; PID 1 is to answer whatever runs inside */
      load_argument(p, 0);
      answer_if(p, 1, FAIL(EPERM));
      answer(p, ALLOW);
      return;
    case CHECK_PRLIMIT:
      check_prlimit(p);
      return;
    case CHECK_SETRLIMIT:
      load_argument(p, 0);
      answer_if(p, RLIMIT_CORE, PRETEND);
      answer(p, ALLOW);
      return;
    case CHECK_HANDLE:
      answer(p, FAIL(EOPNOTSUPP));
      return;
    case CHECK_SOCKET_OPTION:
      check_socket_option(p, pass);
      return;
    case CHECK_SHOWN:
      /* they have two arguments at most, which are pointers: the pass is above those that they do not have */
      answer_by_agent(p, pass, 2);
      return;
    case CHECK_SECCOMP:
      load_argument(p, 0);
      answer_unless(p, SECCOMP_SET_MODE_FILTER, ALLOW);
      answer_filter(p, pass);
      return;
    case CHECK_PRCTL:
      load_argument(p, 0);
      answer_unless(p, PR_SET_SECCOMP, ALLOW);
      load_argument(p, 1);
      answer_unless(p, SECCOMP_MODE_FILTER, ALLOW);
      answer_filter(p, pass);
      return;
    case CHECK_GETFD:
      if (pass) answer_unless_passed(p, pass, 0, FAIL(ENOSYS));
      else answer(p, FAIL(ENOSYS));
      return;
    case CHECK_COPY:
      /* it clones where it can; programs then read and write */
      answer(p, flags & SECCOMP_NO_CLONES ? FAIL(ENOSYS) : ALLOW);
      return;
    case CHECK_SYNC:
      /* it would flush every file system of the host; a sandbox's own is as durable as its snapshots are, no more */
      answer(p, PRETEND);
      return;
  }
}
