/*
 * seccomp.c: turns the tables of syscalls.h into a classic BPF program and installs it.
 *
 * The program, in this order:
 *
 *   another architecture's system call      kill: 32-bit and x32 numbers mean other calls than the tables say
 *   a binary search over the number         some eight comparisons; neighbours of equal fate share one leaf
 *   the checks of arguments                 one block each (seccomp_check.h), which leaves of the search jump to
 *
 * A filter sees the six arguments as 64-bit registers. Where the kernel takes an argument as a 32-bit int it drops the
 * upper half, so the filter must look at the lower half alone: comparing all 64 bits would let 0x100005412 pass as
 * something other than TIOCSTI.
 */
#define _GNU_SOURCE
#include "confinement/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include "confinement/syscalls.h"
#include "confinement/filter_program.h"
#include "confinement/seccomp_check.h"

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

static int limit_core_files(void);
static size_t build_ranges(struct range *ranges);
static void put_search(struct search *s, size_t low, size_t high);

int seccomp_install(const struct seccomp_pass *pass, unsigned options, int *listener) {
  static struct sock_filter program[SECCOMP_ROOM];
  size_t length = seccomp_build(program, SECCOMP_ROOM, pass, options);
  if (!length) return E2BIG;
  int error = limit_core_files();
  if (error) return error;
  struct sock_fprog filter = {.len = (unsigned short)length, .filter = program};
  /* once the agent has heard of a call, only death takes the caller away from it: signals would ask again and again */
  unsigned flags = pass ? SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0;
  int result = (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
  if (pass && result >= 0) *listener = result;
  return result < 0 ? errno : 0;
}

/*
 * not 0: a limit of 1 is what the kernel takes as "do not start the helper"; one byte is too short for a file, too. Where it
 * is 0 and may not be raised, there is no helper: launch.c has made sure of that.
 */
static int limit_core_files(void) {
  struct rlimit limit = {.rlim_cur = 1, .rlim_max = 1};
  if (setrlimit(RLIMIT_CORE, &limit) == 0) return 0;
  int error = errno;
  return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max == 0 ? 0 : error;
}

size_t seccomp_build(struct sock_filter *instructions, size_t room, const struct seccomp_pass *pass, unsigned options) {
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
    seccomp_put_check(&p, (enum syscall_check)check, pass, options);
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
  /* the last range has no end, so it must refuse: it contains all unknown numbers */
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
    /* a comparison jumps at most 255 instructions; a plain jump has no such limit */
    put(p, BPF_JMP | BPF_JGE | BPF_K, s->ranges[middle].first, 0, 1);
    put(p, BPF_JMP | BPF_JA, (uint32_t)lower, 0, 0);
  }
  put_search(s, low, middle);
  put_search(s, middle, high);
}
