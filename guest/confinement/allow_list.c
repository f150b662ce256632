/* allow_list.c: writes the filter of allow_list.h as a classic BPF program and installs it. */
#define _GNU_SOURCE
#include "confinement/allow_list.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "The filters of our own processes are not written for this processor"
#endif

/* numbers from here on belong to x32, which shares its architecture mark with x86_64 */
#define X32 0x40000000u
#define MOST 1024

static struct sock_filter program[MOST];
static unsigned short length;

static void put(unsigned short code, unsigned value, unsigned char yes, unsigned char no) {
  if (length < MOST) program[length] = (struct sock_filter)BPF_JUMP(code, value, yes, no);
  length++;
}

static void load(size_t offset) { put(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0); }
static void answer(unsigned action) { put(BPF_RET | BPF_K, action, 0, 0); }
static void refuse(int error) { answer(SECCOMP_RET_ERRNO | (unsigned)error); }

static void allow_if_equal(unsigned value) {
  put(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  answer(SECCOMP_RET_ALLOW);
}

static void put_rule(const struct argument_rule *rule) {
  unsigned short from = length;
  put(BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0, 0);
  load(offsetof(struct seccomp_data, args) + rule->argument * sizeof(__u64));
  if (rule->unwanted) {
    put(BPF_JMP | BPF_JSET | BPF_K, rule->unwanted, 0, 1);
    refuse(rule->error);
  }
  if (rule->wanted) {
    put(BPF_ALU | BPF_AND | BPF_K, rule->wanted, 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, rule->wanted, 1, 0);
    refuse(rule->error);
  }
  for (size_t i = 0; i < rule->count; i++) allow_if_equal(rule->values[i]);
  if (rule->values) refuse(rule->error);
  else answer(SECCOMP_RET_ALLOW);
  /* another call goes on behind this block */
  if (from < MOST) program[from].jf = (unsigned char)(length - from - 1);
}

int allow_list_install(const struct allow_list *list) {
  length = 0;
  load(offsetof(struct seccomp_data, arch));
  put(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
  answer(SECCOMP_RET_KILL_PROCESS);
  load(offsetof(struct seccomp_data, nr));
  put(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1);
  answer(SECCOMP_RET_KILL_PROCESS);
  for (size_t i = 0; i < list->call_count; i++) allow_if_equal(list->calls[i]);
  for (size_t i = 0; i < list->rule_count; i++) put_rule(&list->rules[i]);
  refuse(ENOSYS);
  if (length > MOST) return E2BIG;
  struct sock_fprog filter = {.len = length, .filter = program};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) < 0 ? errno : 0;
}
