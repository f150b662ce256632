/* probe_kernel.c: system calls that reach the host's kernel itself: its code, clock, swap, keys, tracing, ABIs. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

/* A call with numbers that make it harmless, and `path` as the argument between them. */
static enum ending call(const struct probe *p) { return reached(syscall(p->first, p->second, p->third, 0, 0, 0, 0)); }
static enum ending call_with_path(const struct probe *p) { return reached(syscall(p->first, p->path, 0, 0, 0, 0)); }

static enum ending make_map(const struct probe *p) {
  (void)p;
  union bpf_attr attributes = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
  return ended(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

static enum ending load_program(const struct probe *p) {
  struct bpf_insn code[] = {{.code = 0xb7}, {.code = 0x95}}; /* r0 = 0; exit */
  union bpf_attr attributes = {.prog_type = (uint32_t)p->first, .insns = (uint64_t)(uintptr_t)code, .insn_cnt = 2,
                               .license = (uint64_t)(uintptr_t) "GPL"};
  return ended(syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes));
}

static enum ending watch_performance(const struct probe *p) {
  struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attributes,
                                       .config = PERF_COUNT_SW_TASK_CLOCK};
  attributes.exclude_kernel = p->second == 0;
  return ended(syscall(SYS_perf_event_open, &attributes, p->first, p->first < 0 ? 0 : -1, -1, 0));
}

static enum ending fault_handler(const struct probe *p) { return ended(syscall(SYS_userfaultfd, p->first)); }

static enum ending ring(const struct probe *p) {
  (void)p;
  struct io_uring_params parameters = {0};
  return ended(syscall(SYS_io_uring_setup, 1, &parameters));
}

/* A tick of 0 is out of range, which is found after the question who asks. */
static enum ending adjust_clock(const struct probe *p) {
  struct timex change = {.modes = ADJ_TICK, .tick = 0};
  return reached(p->first ? syscall(SYS_clock_adjtime, 0, &change) : syscall(SYS_adjtimex, &change));
}

static enum ending read_log(const struct probe *p) {
  char line[64];
  return ended(syscall(SYS_syslog, p->first, line, sizeof line));
}

static enum ending change_personality(const struct probe *p) {
  int result = personality((unsigned long)p->first);
  return ended(result);
}

static enum ending add_key(const struct probe *p) {
  return ended(syscall(SYS_add_key, "user", "sandkeep-probe", "x", 1, p->first));
}

static enum ending request_key(const struct probe *p) {
  (void)p;
  return reached(syscall(SYS_request_key, "user", "sandkeep-probe", NULL, -2));
}

/* A handle of our own root, or where none is given out the one that many file systems have: inode 2. */
static enum ending open_by_handle(const struct probe *p) {
  struct {
    struct file_handle header;
    unsigned char bytes[128];
  } handle = {.header = {.handle_bytes = 128}};
  int mount_id = 0, root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (p->first || name_to_handle_at(AT_FDCWD, "/", &handle.header, &mount_id, 0)) {
    uint32_t inode[2] = {2, 0};
    handle.header.handle_bytes = sizeof inode;
    handle.header.handle_type = 1;
    memcpy(handle.bytes, inode, sizeof inode);
  }
  return reached(open_by_handle_at(root, &handle.header, O_RDONLY));
}

static enum ending name_handle(const struct probe *p) {
  struct {
    struct file_handle header;
    unsigned char bytes[128];
  } handle = {.header = {.handle_bytes = 128}};
  int mount_id = 0;
  return ended(name_to_handle_at(AT_FDCWD, p->path, &handle.header, &mount_id, 0));
}

#ifdef __x86_64__
/* getpid by the 32-bit table: number 20 there is writev in the 64-bit one */
static enum ending call_i386(const struct probe *p) {
  (void)p;
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
  errno = (int)-result;
  return result == getpid() ? is_open("it worked") : is_closed("%s", strerror(errno));
}

static enum ending call_x32(const struct probe *p) { return ended(syscall(0x40000000 | p->first, p->second, 0, 0)); }

static enum ending read_ldt(const struct probe *p) {
  char buffer[64];
  return ended(syscall(SYS_modify_ldt, p->first, buffer, sizeof buffer));
}
#endif

const struct probe KERNEL_PROBES[] = {
    {"bpf-map", make_map, NULL, 0, 0, 0},
    {"bpf-socket-filter", load_program, NULL, BPF_PROG_TYPE_SOCKET_FILTER, 0, 0},
    {"bpf-cgroup-skb", load_program, NULL, BPF_PROG_TYPE_CGROUP_SKB, 0, 0},
    {"bpf-unprivileged-call", call, NULL, SYS_bpf, BPF_OBJ_GET, 0},
    {"perf-self", watch_performance, NULL, 0, 0, 0},
    {"perf-self-kernel", watch_performance, NULL, 0, 1, 0},
    {"perf-whole-machine", watch_performance, NULL, -1, 1, 0},
    {"userfaultfd", fault_handler, NULL, 0, 0, 0},
    {"userfaultfd-user-mode", fault_handler, NULL, 1, 0, 0},
    {"io-uring-setup", ring, NULL, 0, 0, 0},
    {"io-uring-enter", call, NULL, SYS_io_uring_enter, -1, 0},
    {"io-uring-register", call, NULL, SYS_io_uring_register, -1, 0},
    {"kexec-load", call, NULL, SYS_kexec_load, 0, 1000},
#ifdef SYS_kexec_file_load
    {"kexec-file-load", call, NULL, SYS_kexec_file_load, -1, -1},
#endif
    {"module-load", call_with_path, NULL, SYS_init_module, 0, 0},
    {"module-load-file", call, NULL, SYS_finit_module, -1, 0},
    {"module-unload", call_with_path, "sandkeep-probe", SYS_delete_module, 0, 0},
    /* wrong magic numbers */
    {"reboot", call, NULL, SYS_reboot, 0, 0},
    /* neither a time nor a zone: sets nothing */
    {"clock-set-time-of-day", call, NULL, SYS_settimeofday, 0, 0},
    {"clock-set", call, NULL, SYS_clock_settime, 0, 0},
    {"clock-adjust", adjust_clock, NULL, 0, 0, 0},
    {"clock-adjust-by-id", adjust_clock, NULL, 1, 0, 0},
    {"swap-on", call_with_path, "/nowhere/swap", SYS_swapon, 0, 0},
    {"swap-off", call_with_path, "/nowhere/swap", SYS_swapoff, 0, 0},
    {"accounting", call_with_path, "/nowhere/acct", SYS_acct, 0, 0},
    {"quota", call, NULL, SYS_quotactl, 0x80000200, 0},
    {"quota-by-fd", call, NULL, SYS_quotactl_fd, -1, 0x80000200},
    {"kernel-log-size", read_log, NULL, 10, 0, 0},
    {"kernel-log-read", read_log, NULL, 3, 0, 0},
    {"personality-read-implies-exec", change_personality, NULL, READ_IMPLIES_EXEC, 0, 0},
    {"personality-map-page-zero", change_personality, NULL, MMAP_PAGE_ZERO, 0, 0},
    {"personality-compat-layout", change_personality, NULL, ADDR_COMPAT_LAYOUT, 0, 0},
    {"personality-32-bit", change_personality, NULL, PER_LINUX32, 0, 0},
    {"keyring-session", call, NULL, SYS_keyctl, 0, -3},
    {"keyring-user", call, NULL, SYS_keyctl, 0, -4},
    {"keyring-join", call, NULL, SYS_keyctl, 1, 0},
    {"keyring-add", add_key, NULL, -2, 0, 0},
    {"keyring-request", request_key, NULL, 0, 0, 0},
    {"handle-open", open_by_handle, NULL, 0, 0, 0},
    {"handle-open-inode-2", open_by_handle, NULL, 1, 0, 0},
    {"handle-name", name_handle, "/", 0, 0, 0},
    {"fanotify", call, NULL, SYS_fanotify_init, 0, O_RDONLY},
    {"fanotify-unprivileged", call, NULL, SYS_fanotify_init, 0x200, O_RDONLY},
    {"memfd-secret", call, NULL, SYS_memfd_secret, 0, 0},
#ifdef SYS_lookup_dcookie
    {"dcookie", call, NULL, SYS_lookup_dcookie, 0, 0},
#endif
#ifdef __x86_64__
    {"io-privilege-level", call, NULL, SYS_iopl, 3, 0},
    {"io-ports", call, NULL, SYS_ioperm, 0x80, 1},
    {"local-descriptor-table", read_ldt, NULL, 0, 0, 0},
    {"abi-i386", call_i386, NULL, 0, 0, 0},
    {"abi-x32-getpid", call_x32, NULL, 39, 0, 0},
    {"abi-x32-unshare", call_x32, NULL, 272, 0x10000000, 0},
#endif
    {0},
};
