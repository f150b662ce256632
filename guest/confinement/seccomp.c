/*
 * seccomp.c: turns the tables of syscalls.h into a classic BPF program and installs it.
 *
 * The program, in this order:
 *
 *   another architecture's system call      kill: 32-bit and x32 numbers mean other calls than the tables say
 *   a binary search over the number         some eight comparisons; neighbours of equal fate share one leaf
 *   the checks of arguments                 one block each, which leaves of the search jump to
 *
 * A filter sees the six arguments as 64-bit registers. Where the kernel takes an argument as a 32-bit int it drops the
 * upper half, so the filter must look at the lower half alone: comparing all 64 bits would let 0x100005412 pass as
 * something other than TIOCSTI.
 */
#define _GNU_SOURCE
#include "confinement/seccomp.h"

#include "confinement/syscalls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the offsets of arguments' halves are written for little-endian machines"
#endif

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "syscalls.h has no tables for this architecture"
#endif

/* numbers from here on belong to x32, which shares its architecture mark with x86_64 */
#define X32_BIT 0x40000000u
/* what a tracer writes over the number of a call that it wants left out: no call at all */
#define NO_SYSCALL 0xffffffffu
/* above every number in the tables */
#define NUMBERS 512

#define ALLOW SECCOMP_RET_ALLOW
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))
/* answers 0 without making the call */
#define PRETEND FAIL(0)

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define NEW_NAMESPACES \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

struct program {
  struct sock_filter *at;
  size_t length; /* beyond room when it did not fit */
  size_t room;
};

/* What becomes of a call: `answer`, or where `checked` what the block of `check` says. */
struct fate {
  uint32_t answer;
  bool checked;
  enum syscall_check check;
};

/* Numbers from `first` up to the next range's share a fate. */
struct range {
  uint32_t first;
  struct fate fate;
};

/* A leaf that must jump to a check's block once that has its place. */
struct fixup {
  size_t at;
  enum syscall_check check;
};

struct search {
  struct program *program;
  struct range ranges[NUMBERS + 1];
  size_t range_count;
  struct fixup fixups[NUMBERS];
  size_t fixup_count;
};

static size_t build_ranges(struct range *ranges);
static void put_search(struct search *s, size_t low, size_t high);
static void put_check(struct program *p, enum syscall_check check, const struct seccomp_pass *pass);
static void put(struct program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false);
static void answer(struct program *p, uint32_t value);
static void answer_if(struct program *p, uint32_t equal, uint32_t value);

int seccomp_install(const struct seccomp_pass *pass, int *listener) {
  static struct sock_filter program[SECCOMP_ROOM];
  size_t length = seccomp_build(program, SECCOMP_ROOM, pass);
  if (!length) return E2BIG;
  /* not 0: a limit of 1 is what the kernel takes as "do not start the helper"; one byte is too short for a file, too */
  struct rlimit one = {.rlim_cur = 1, .rlim_max = 1};
  if (setrlimit(RLIMIT_CORE, &one)) return errno;
  struct sock_fprog filter = {.len = (unsigned short)length, .filter = program};
  /* once the agent has heard of a call, only death takes the caller away from it: signals would ask again and again */
  unsigned flags = pass ? SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0;
  int result = (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
  if (pass && result >= 0) *listener = result;
  return result < 0 ? errno : 0;
}

size_t seccomp_build(struct sock_filter *instructions, size_t room, const struct seccomp_pass *pass) {
  struct program p = {.at = instructions, .length = 0, .room = room};
  /* static: too large for a small stack, and a process builds its filter once */
  static struct search s;
  s.program = &p;
  s.fixup_count = 0;
  s.range_count = build_ranges(s.ranges);

  put(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
  put(&p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
  answer(&p, SECCOMP_RET_KILL_PROCESS);
  put(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
#ifdef __x86_64__
  answer_if(&p, NO_SYSCALL, ALLOW);
  put(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
  answer(&p, SECCOMP_RET_KILL_PROCESS);
#endif
  put_search(&s, 0, s.range_count);

  for (int check = 0; check <= CHECK_GETFD; check++) {
    for (size_t i = 0; i < s.fixup_count; i++) {
      if ((int)s.fixups[i].check != check || s.fixups[i].at >= room) continue;
      instructions[s.fixups[i].at].k = (uint32_t)(p.length - s.fixups[i].at - 1);
    }
    put_check(&p, (enum syscall_check)check, pass);
  }
  return p.length <= room ? p.length : 0;
}

static bool same(struct fate a, struct fate b) {
  return a.checked == b.checked && (a.checked ? a.check == b.check : a.answer == b.answer);
}

static size_t build_ranges(struct range *ranges) {
  struct fate fates[NUMBERS];
  for (size_t i = 0; i < NUMBERS; i++) fates[i] = (struct fate){.answer = FAIL(ENOSYS)};
  for (size_t i = 0; i < sizeof SYSCALLS_ALLOWED / sizeof *SYSCALLS_ALLOWED; i++)
    fates[SYSCALLS_ALLOWED[i]] = (struct fate){.answer = ALLOW};
  for (size_t i = 0; i < sizeof SYSCALLS_REFUSED / sizeof *SYSCALLS_REFUSED; i++)
    fates[SYSCALLS_REFUSED[i]] = (struct fate){.answer = FAIL(EPERM)};
  for (size_t i = 0; i < sizeof SYSCALLS_CHECKED / sizeof *SYSCALLS_CHECKED; i++)
    fates[SYSCALLS_CHECKED[i].number] = (struct fate){.checked = true, .check = SYSCALLS_CHECKED[i].check};

  size_t count = 0;
  for (uint32_t number = 0; number < NUMBERS; number++) {
    if (count && same(ranges[count - 1].fate, fates[number])) continue;
    ranges[count++] = (struct range){.first = number, .fate = fates[number]};
  }
  /* the last range has no end: it must not be one that lets unknown numbers through */
  if (!same(ranges[count - 1].fate, (struct fate){.answer = FAIL(ENOSYS)}))
    ranges[count++] = (struct range){.first = NUMBERS, .fate = {.answer = FAIL(ENOSYS)}};
  return count;
}

/* how many instructions put_search() takes for as many ranges */
static size_t search_size(size_t ranges) {
  if (ranges == 1) return 1;
  size_t left = search_size(ranges / 2);
  return 1 + (left > UINT8_MAX) + left + search_size(ranges - ranges / 2);
}

/* ranges[low..high): one comparison, the lower half, the upper half */
static void put_search(struct search *s, size_t low, size_t high) {
  struct program *p = s->program;
  if (high - low == 1) {
    struct fate fate = s->ranges[low].fate;
    if (!fate.checked) {
      answer(p, fate.answer);
      return;
    }
    s->fixups[s->fixup_count++] = (struct fixup){.at = p->length, .check = fate.check};
    put(p, BPF_JMP | BPF_JA, 0, 0, 0);
    return;
  }
  size_t middle = low + (high - low) / 2;
  size_t lower = search_size(middle - low);
  if (lower <= UINT8_MAX) {
    put(p, BPF_JMP | BPF_JGE | BPF_K, s->ranges[middle].first, (uint8_t)lower, 0);
  } else {
    /* a comparison jumps at most 255 instructions far, a plain jump as far as it likes */
    put(p, BPF_JMP | BPF_JGE | BPF_K, s->ranges[middle].first, 0, 1);
    put(p, BPF_JMP | BPF_JA, (uint32_t)lower, 0, 0);
  }
  put_search(s, low, middle);
  put_search(s, middle, high);
}

static void put(struct program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
  if (p->length < p->room)
    p->at[p->length] = (struct sock_filter){.code = code, .jt = if_true, .jf = if_false, .k = k};
  p->length++;
}

static void answer(struct program *p, uint32_t value) { put(p, BPF_RET | BPF_K, value, 0, 0); }

static void answer_if(struct program *p, uint32_t equal, uint32_t value) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, equal, 0, 1);
  answer(p, value);
}

static void answer_if_any(struct program *p, uint32_t bits, uint32_t value) {
  put(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  answer(p, value);
}

static void answer_unless(struct program *p, uint32_t equal, uint32_t value) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, equal, 1, 0);
  answer(p, value);
}

/* what follows, up to done(), is for values equal to this one */
static size_t when(struct program *p, uint32_t equal) {
  put(p, BPF_JMP | BPF_JEQ | BPF_K, equal, 0, 0);
  return p->length - 1;
}

static void done(struct program *p, size_t when) {
  if (when < p->room) p->at[when].jf = (uint8_t)(p->length - when - 1);
}

static void load_argument(struct program *p, int index) {
  put(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (uint32_t)index, 0, 0);
}

static void load_upper_half(struct program *p, int index) {
  put(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (uint32_t)index + 4, 0, 0);
}

/* 0 for a null pointer, anything else for another */
static void load_whether_set(struct program *p, int index) {
  load_argument(p, index);
  put(p, BPF_MISC | BPF_TAX, 0, 0, 0);
  load_upper_half(p, index);
  put(p, BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
}

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
static void check_ioctl(struct program *p) {
  load_argument(p, 1);
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

static void put_check(struct program *p, enum syscall_check check, const struct seccomp_pass *pass) {
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
      check_ioctl(p);
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
    case CHECK_SYNC:
      /* it would flush every file system of the host; a sandbox's own is as durable as its snapshots are, no more */
      answer(p, PRETEND);
      return;
  }
}
