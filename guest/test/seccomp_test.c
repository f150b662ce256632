/*
 * seccomp_test.c: runs the filter in user space, for every system call's number and for the arguments that matter, and
 * compares its answers with the tables. Prints one line for each mismatch; exits 0 when there is none.
 */
#define _GNU_SOURCE
#include "confinement/seccomp.h"
#include "confinement/syscalls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif
#define ALLOW SECCOMP_RET_ALLOW
#define KILL SECCOMP_RET_KILL_PROCESS
#define FAIL(error) (SECCOMP_RET_ERRNO | (error))
#define HIGH 0x100000000ull
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct seccomp_pass PASS = {{0x11111111, 0x22222222, 0x33333333}};
#define SHOWN(value, word) ((uint64_t)(value) | (uint64_t)PASS.words[word] << 32)
#define TOLD SECCOMP_RET_USER_NOTIF

static struct sock_filter program[SECCOMP_ROOM];
static size_t length;
static int mismatches;
static size_t longest;

static void test_numbers(void);
static void test_arguments(void);
static void test_architectures(void);
static void test_tables(void);
static void test_room(void);
static void test_no_clones(void);
static uint32_t run(const struct seccomp_data *call);

int main(void) {
  length = seccomp_build(program, SECCOMP_ROOM, &PASS, 0);
  if (!length) return puts("the filter does not fit"), 1;
  test_tables();
  test_numbers();
  test_arguments();
  test_architectures();
  test_room();
  test_no_clones();
  printf("%zu instructions, at most %zu run, %d mismatches\n", length, longest, mismatches);
  return mismatches ? 1 : 0;
}

static void expect(const char *what, const struct seccomp_data *call, uint32_t wanted) {
  uint32_t got = run(call);
  if (got == wanted) return;
  mismatches++;
  printf("%s (call %d, arguments %llx %llx %llx %llx): %x, wanted %x\n", what, call->nr,
         (unsigned long long)call->args[0], (unsigned long long)call->args[1], (unsigned long long)call->args[2],
         (unsigned long long)call->args[3], got, wanted);
}

static bool among(const uint16_t *table, size_t count, int number) {
  for (size_t i = 0; i < count; i++)
    if (table[i] == number) return true;
  return false;
}

static bool checked(int number) {
  for (size_t i = 0; i < COUNT(SYSCALLS_CHECKED); i++)
    if (SYSCALLS_CHECKED[i].number == number) return true;
  return false;
}

/* A call in two tables would have whichever fate is written last. */
static void test_tables(void) {
  for (int number = 0; number <= 600; number++) {
    size_t times = checked(number);
    for (size_t i = 0; i < COUNT(SYSCALLS_ALLOWED); i++) times += SYSCALLS_ALLOWED[i] == number;
    for (size_t i = 0; i < COUNT(SYSCALLS_REFUSED); i++) times += SYSCALLS_REFUSED[i] == number;
    if (times <= 1) continue;
    mismatches++;
    printf("call %d is in the tables %zu times\n", number, times);
  }
}

static void test_numbers(void) {
  for (int number = 0; number <= 600; number++) {
    if (checked(number)) continue;
    struct seccomp_data call = {.nr = number, .arch = ARCH, .args = {1, 2, 3, 4, 5, 6}};
    uint32_t wanted = among(SYSCALLS_ALLOWED, COUNT(SYSCALLS_ALLOWED), number)   ? ALLOW
                      : among(SYSCALLS_REFUSED, COUNT(SYSCALLS_REFUSED), number) ? FAIL(EPERM)
                                                                                 : FAIL(ENOSYS);
    expect("number", &call, wanted);
  }
  struct seccomp_data huge = {.nr = 0x3fffffff, .arch = ARCH};
  expect("unknown number", &huge, FAIL(ENOSYS));
}

struct argument_case {
  const char *what;
  int number;
  uint64_t args[4];
  uint32_t wanted;
};

static const struct argument_case CASES[] = {
    {"fork", __NR_clone, {17}, ALLOW},
    {"thread", __NR_clone, {0x3d0f00}, ALLOW},
    {"vfork with pidfd", __NR_clone, {0x5111}, ALLOW},
    {"new mount ns", __NR_clone, {CLONE_NEWNS | 17}, FAIL(EPERM)},
    {"new cgroup ns", __NR_clone, {CLONE_NEWCGROUP}, FAIL(EPERM)},
    {"new uts ns", __NR_clone, {CLONE_NEWUTS}, FAIL(EPERM)},
    {"new ipc ns", __NR_clone, {CLONE_NEWIPC}, FAIL(EPERM)},
    {"new user ns", __NR_clone, {CLONE_NEWUSER}, FAIL(EPERM)},
    {"new pid ns", __NR_clone, {CLONE_NEWPID}, FAIL(EPERM)},
    {"new net ns", __NR_clone, {CLONE_NEWNET}, FAIL(EPERM)},
    {"new user ns, upper bits", __NR_clone, {CLONE_NEWUSER | HIGH}, FAIL(EPERM)},
    {"clone3", __NR_clone3, {0}, FAIL(ENOSYS)},
    {"unshare files", __NR_unshare, {CLONE_FILES | CLONE_FS}, ALLOW},
    {"unshare nothing", __NR_unshare, {0}, ALLOW},
    {"unshare user", __NR_unshare, {CLONE_NEWUSER}, FAIL(EPERM)},
    {"unshare time", __NR_unshare, {0x80}, FAIL(EPERM)},
    {"unshare a future flag", __NR_unshare, {HIGH}, FAIL(EPERM)},
    {"tiocsti", __NR_ioctl, {0, TIOCSTI}, FAIL(EPERM)},
    {"tiocsti, upper bits", __NR_ioctl, {0, TIOCSTI | HIGH}, FAIL(EPERM)},
    {"tioclinux", __NR_ioctl, {0, TIOCLINUX}, FAIL(EPERM)},
    {"tiocsetd", __NR_ioctl, {0, TIOCSETD | 0xffffffff00000000ull}, FAIL(EPERM)},
    {"window size", __NR_ioctl, {0, TIOCGWINSZ}, ALLOW},
    {"first of terminals", __NR_ioctl, {0, TCGETS}, ALLOW},
    {"bytes to read", __NR_ioctl, {0, FIONREAD}, ALLOW},
    {"a number below terminals", __NR_ioctl, {0, 0x5400}, FAIL(ENOTTY)},
    {"a number above terminals", __NR_ioctl, {0, 0x5461}, FAIL(ENOTTY)},
    {"a terminal's number of a ptmx", __NR_ioctl, {0, TIOCGPTN}, ALLOW},
    {"copy", __NR_copy_file_range, {3, 0, 4, 0}, ALLOW},
    {"reflink", __NR_ioctl, {0, FICLONE}, ALLOW},
    {"reflink, upper bits", __NR_ioctl, {0, FICLONERANGE | HIGH}, ALLOW},
    {"a subvolume", __NR_ioctl, {0, 0x5000940e}, FAIL(ENOTTY)},
    {"a subvolume, second version", __NR_ioctl, {0, 0x50009418}, FAIL(ENOTTY)},
    {"interfaces", __NR_ioctl, {0, SIOCGIFCONF}, ALLOW},
    {"a bridge, which loads a module", __NR_ioctl, {0, SIOCGIFBR}, FAIL(EPERM)},
    {"an interface's MTU", __NR_ioctl, {0, SIOCSIFMTU}, FAIL(EPERM)},
    {"an unknown device's", __NR_ioctl, {0, 0xdeadbeef}, FAIL(ENOTTY)},
    {"personality", __NR_personality, {0}, ALLOW},
    {"personality asked", __NR_personality, {0xffffffff}, ALLOW},
    {"personality for gdb", __NR_personality, {0x40000}, ALLOW},
    {"personality 32 bit", __NR_personality, {8}, FAIL(EPERM)},
    {"personality read implies exec", __NR_personality, {0x400000}, FAIL(EPERM)},
    {"personality, upper bits", __NR_personality, {0x400000 | HIGH}, FAIL(EPERM)},
    {"socketpair", __NR_socketpair, {AF_UNIX, 1, 0}, ALLOW},
    {"socketpair tipc", __NR_socketpair, {30, 1, 0}, FAIL(EAFNOSUPPORT)},
    {"own limit", __NR_prlimit64, {0, 7, 0x1000, 0}, ALLOW},
    {"pid 1's limit", __NR_prlimit64, {1, 7, 0x1000, 0}, FAIL(EPERM)},
    {"pid 1's limit, upper bits", __NR_prlimit64, {1 | HIGH, 0, 0x1000, 0}, FAIL(EPERM)},
    {"core limit asked", __NR_prlimit64, {0, 4, 0, 0x1000}, ALLOW},
    {"core limit set", __NR_prlimit64, {0, 4, 0x1000, 0}, FAIL(0)},
    {"core limit set, pointer with empty lower half", __NR_prlimit64, {0, 4, HIGH, 0}, FAIL(0)},
    {"core limit set and asked", __NR_prlimit64, {0, 4, 0x1000, 0x1000}, FAIL(EPERM)},
    {"core limit set and asked, upper half", __NR_prlimit64, {0, 4, 0x1000, HIGH}, FAIL(EPERM)},
    {"core limit, old form", __NR_setrlimit, {4, 0x1000}, FAIL(0)},
    {"other limit, old form", __NR_setrlimit, {7, 0x1000}, ALLOW},
    {"own affinity", __NR_sched_setaffinity, {0}, ALLOW},
    {"pid 1's affinity", __NR_sched_setaffinity, {1}, FAIL(EPERM)},
    {"pid 1's class", __NR_sched_setscheduler, {1, 5}, FAIL(EPERM)},
    {"pid 1's parameters", __NR_sched_setparam, {1}, FAIL(EPERM)},
    {"pid 1's attributes", __NR_sched_setattr, {1}, FAIL(EPERM)},
    {"handle", __NR_name_to_handle_at, {0}, FAIL(EOPNOTSUPP)},
    {"sync", __NR_sync, {0}, FAIL(0)},
    {"a receive buffer", __NR_setsockopt, {3, SOL_SOCKET, SO_RCVBUF}, TOLD},
    {"a receive buffer, upper bits", __NR_setsockopt, {3, SOL_SOCKET | HIGH, SO_RCVBUF}, TOLD},
    {"the agent's receive buffer", __NR_setsockopt, {SHOWN(3, 0), SHOWN(SOL_SOCKET, 1), SHOWN(SO_RCVBUF, 2)}, ALLOW},
    {"a send buffer", __NR_setsockopt, {3, SOL_SOCKET, SO_SNDBUF}, ALLOW},
    {"a filter of packets", __NR_setsockopt, {3, SOL_SOCKET, SO_ATTACH_FILTER}, FAIL(ENOPROTOOPT)},
    {"a filter of packets, upper bits", __NR_setsockopt, {3, SOL_SOCKET | HIGH, SO_ATTACH_FILTER | HIGH}, FAIL(ENOPROTOOPT)},
    {"a filter that chooses a socket", __NR_setsockopt, {3, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}, FAIL(ENOPROTOOPT)},
    {"copies of what was sent", __NR_setsockopt, {3, SOL_SOCKET, 37}, FAIL(ENOPROTOOPT)},
    {"a key of a peer", __NR_setsockopt, {3, 6, 14}, FAIL(ENOPROTOOPT)},
    {"a key of a peer, upper bits", __NR_setsockopt, {3, 6 | HIGH, 14 | HIGH}, FAIL(ENOPROTOOPT)},
    {"no delay", __NR_setsockopt, {3, 6, 1}, ALLOW},
    {"a datagram that is held back", __NR_setsockopt, {3, 17, 1}, FAIL(ENOPROTOOPT)},
    {"what was refused", __NR_setsockopt, {3, 0, 11}, FAIL(0)},
    {"what was refused, of IPv6", __NR_setsockopt, {3, 41, 25}, FAIL(0)},
    {"a label of a flow", __NR_setsockopt, {3, 41, 32}, FAIL(ENOPROTOOPT)},
    {"a sender of multicasts", __NR_setsockopt, {3, 0, 39}, FAIL(ENOPROTOOPT)},
    {"a group of multicasts", __NR_setsockopt, {3, 0, 35}, ALLOW},
    {"a memory policy", __NR_mbind, {0x1000, 4096, 2}, FAIL(ENOSYS)},
    {"a filter of calls", __NR_seccomp, {SECCOMP_SET_MODE_FILTER, 0, 0x1000}, TOLD},
    {"a filter of calls, upper bits", __NR_seccomp, {SECCOMP_SET_MODE_FILTER | HIGH, 0, HIGH}, TOLD},
    {"no filter of calls", __NR_seccomp, {SECCOMP_SET_MODE_FILTER, 1, 0}, ALLOW},
    {"the strict mode", __NR_seccomp, {SECCOMP_SET_MODE_STRICT, 0, 0x1000}, ALLOW},
    {"what filters can do", __NR_seccomp, {SECCOMP_GET_ACTION_AVAIL, 0, 0x1000}, ALLOW},
    {"a filter of calls by prctl", __NR_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0x1000}, TOLD},
    {"a filter of calls by prctl, upper bits", __NR_prctl, {PR_SET_SECCOMP | HIGH, SECCOMP_MODE_FILTER, HIGH}, TOLD},
    {"no filter of calls by prctl", __NR_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0}, ALLOW},
    {"the strict mode by prctl", __NR_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_STRICT}, ALLOW},
    {"another wish of prctl", __NR_prctl, {PR_SET_NAME, SECCOMP_MODE_FILTER, 0x1000}, ALLOW},
    {"another level's option", __NR_setsockopt, {3, 6, SO_RCVBUF}, ALLOW},
    {"another's descriptor", __NR_pidfd_getfd, {3, 4, 0}, FAIL(ENOSYS)},
    {"the agent's look at another's descriptor", __NR_pidfd_getfd, {SHOWN(3, 0), SHOWN(4, 1), SHOWN(0, 2)}, ALLOW},
    {"two thirds of the pass", __NR_pidfd_getfd, {SHOWN(3, 0), SHOWN(4, 1), 0}, FAIL(ENOSYS)},
    {"a socket for datagrams of the agent", __NR_socket, {SHOWN(2, 0), SHOWN(2, 1), SHOWN(17, 2)}, ALLOW},
    {"a routing socket of the agent", __NR_socket, {SHOWN(16, 0), SHOWN(3, 1), SHOWN(0, 2)}, ALLOW},
};

static uint32_t socket_answer(int family, int type, int protocol) {
  int kind = type & 0xf;
  if (family == 1) return ALLOW;
  if (family == 16) return protocol == 0 ? TOLD : FAIL(EPROTONOSUPPORT);
  if (family != 2 && family != 10) return FAIL(EAFNOSUPPORT);
  if (kind == 1) return protocol == 0 || protocol == 6 ? ALLOW : FAIL(EPROTONOSUPPORT);
  if (kind == 2) return protocol == 0 || protocol == 17 ? TOLD : FAIL(EPROTONOSUPPORT);
  return kind == 3 || kind == 10 ? FAIL(EPERM) : FAIL(ESOCKTNOSUPPORT);
}

static void test_arguments(void) {
  for (size_t i = 0; i < COUNT(CASES); i++) {
    struct seccomp_data call = {.nr = CASES[i].number, .arch = ARCH};
    memcpy(call.args, CASES[i].args, sizeof CASES[i].args);
    expect(CASES[i].what, &call, CASES[i].wanted);
  }
  static const int PROTOCOLS[] = {0, 1, 4, 6, 9, 12, 15, 16, 17, 33, 58, 132, 136, 255, 262};
  for (int family = 0; family < 64; family++)
    for (int type = 0; type < 16; type++)
      for (size_t i = 0; i < COUNT(PROTOCOLS); i++) {
        uint32_t wanted = socket_answer(family, type, PROTOCOLS[i]);
        struct seccomp_data call = {.nr = __NR_socket, .arch = ARCH};
        call.args[0] = (uint64_t)family;
        call.args[1] = (uint64_t)type | SOCK_CLOEXEC | SOCK_NONBLOCK;
        call.args[2] = (uint64_t)PROTOCOLS[i];
        expect("socket", &call, wanted);
        for (int j = 0; j < 3; j++) call.args[j] |= HIGH;
        expect("socket, upper bits", &call, wanted);
      }
}

static void test_architectures(void) {
  static const uint32_t OTHERS[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_PPC64LE, 0, ARCH ^ 1};
  for (size_t i = 0; i < COUNT(OTHERS); i++)
    for (int number = 0; number <= 600; number++) {
      struct seccomp_data call = {.nr = number, .arch = OTHERS[i]};
      expect("another architecture", &call, KILL);
    }
#ifdef __x86_64__
  for (int number = 0; number <= 600; number++) {
    struct seccomp_data call = {.nr = number | 0x40000000, .arch = ARCH};
    expect("x32", &call, KILL);
  }
  struct seccomp_data skipped = {.nr = -1, .arch = ARCH};
  expect("left out by a tracer", &skipped, ALLOW);
  struct seccomp_data negative = {.nr = -2, .arch = ARCH};
  expect("negative", &negative, KILL);
#endif
}

/* Too little room is reported, and no byte is written beyond it. */
static void test_room(void) {
  for (size_t room = 0; room < length; room++) {
    struct sock_filter *small = malloc((room ? room : 1) * sizeof *small);
    if (!small) abort();
    if (seccomp_build(small, room, &PASS, 0)) mismatches++, printf("%zu instructions were said to be enough\n", room);
    free(small);
  }
}

/* with the option, and nothing else changes; the last test, as it exchanges the program */
static void test_no_clones(void) {
  static const struct {
    const char *what;
    int number;
    uint64_t command;
    uint32_t wanted;
  } OTHERS[] = {
      {"clone", __NR_ioctl, FICLONE, FAIL(EOPNOTSUPP)},
      {"clone of a range, upper bits", __NR_ioctl, FICLONERANGE | HIGH, FAIL(EOPNOTSUPP)},
      {"sharing of equal content", __NR_ioctl, FIDEDUPERANGE, FAIL(EOPNOTSUPP)},
      {"where a file lies", __NR_ioctl, FS_IOC_FIEMAP, ALLOW},
      {"copy", __NR_copy_file_range, 0, FAIL(ENOSYS)},
      {"sendfile", __NR_sendfile, 0, ALLOW},
  };
  size_t before = length;
  length = seccomp_build(program, SECCOMP_ROOM, &PASS, SECCOMP_NO_CLONES);
  for (size_t i = 0; i < COUNT(OTHERS); i++) {
    struct seccomp_data call = {.nr = OTHERS[i].number, .arch = ARCH, .args = {3, OTHERS[i].command}};
    expect(OTHERS[i].what, &call, OTHERS[i].wanted);
  }
  length = before;
}

static uint32_t load(const struct seccomp_data *call, uint32_t offset) {
  uint32_t value;
  if (offset % 4 || offset > sizeof *call - sizeof value) abort();
  memcpy(&value, (const char *)call + offset, sizeof value);
  return value;
}

/* The instructions that the filter uses, as the kernel runs them. */
static uint32_t run(const struct seccomp_data *call) {
  uint32_t a = 0, x = 0;
  size_t steps = 0;
  for (size_t pc = 0; pc < length;) {
    struct sock_filter i = program[pc++];
    if (++steps > longest) longest = steps;
    switch (i.code) {
      case BPF_LD | BPF_W | BPF_ABS: a = load(call, i.k); break;
      case BPF_JMP | BPF_JEQ | BPF_K: pc += a == i.k ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JGE | BPF_K: pc += a >= i.k ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JSET | BPF_K: pc += (a & i.k) ? i.jt : i.jf; break;
      case BPF_JMP | BPF_JA: pc += i.k; break;
      case BPF_ALU | BPF_AND | BPF_K: a &= i.k; break;
      case BPF_ALU | BPF_OR | BPF_X: a |= x; break;
      case BPF_MISC | BPF_TAX: x = a; break;
      case BPF_RET | BPF_K: return i.k;
      default: printf("instruction %zu has unknown code %x\n", pc - 1, i.code), abort();
    }
  }
  puts("ran off the end"), abort();
}
