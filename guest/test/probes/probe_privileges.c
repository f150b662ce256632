/* probe_privileges.c: gaining capabilities or ids, running ahead of others, and leaving a changed root. */
#define _GNU_SOURCE
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* the capabilities that root inside is meant to have */
#define KEPT 0xa00405fbll

static enum ending capability_set(const struct probe *p) {
  int64_t set = status_number("self", p->path, 16), allowed = getuid() == 0 || p->first ? KEPT : 0;
  if (p->second) allowed = 0;
  if (set < 0) return untried("no /proc");
  return set & ~allowed ? is_open("beyond what is kept: %llx", (long long)(set & ~allowed))
                        : is_closed("%llx", (long long)set);
}

static enum ending raise_capability(const struct probe *p) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets)) return is_closed("%s", strerror(errno));
  sets[p->first / 32].permitted |= 1u << (p->first % 32);
  sets[p->first / 32].effective |= 1u << (p->first % 32);
  return ended(syscall(SYS_capset, &header, sets));
}

static enum ending raise_ambient(const struct probe *p) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets)) return is_closed("%s", strerror(errno));
  sets[p->first / 32].inheritable |= 1u << (p->first % 32);
  if (syscall(SYS_capset, &header, sets)) return is_closed("%s", strerror(errno));
  return ended(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, p->first, 0, 0));
}

/* A copy of this program that says it has the capability, run to see whether it does. */
static enum ending file_capability(const struct probe *p) {
  const char *directory = scratch_directory();
  char copy[128];
  if (!directory) return untried("no directory to write to");
  snprintf(copy, sizeof copy, "%s/copy", directory);
  int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
  if (from < 0 || to < 0) return untried("cannot copy the probe: %s", strerror(errno));
  while (sendfile(to, from, NULL, 1 << 20) > 0) continue;
  close(to);
  struct vfs_cap_data attribute = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE};
  attribute.data[p->first / 32].permitted = 1u << (p->first % 32);
  if (setxattr(copy, "security.capability", &attribute, sizeof attribute, 0)) return is_closed("%s", strerror(errno));
  pid_t child = fork();
  if (child == 0) {
    char *arguments[] = {copy, (char *)(uintptr_t)"capability-effective-set", NULL};
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    execv(copy, arguments);
    _exit(CLOSED);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == OPEN ? is_open("the program has it")
                                                          : is_closed("the program lacks it");
}

static enum ending no_filter(const struct probe *p) {
  (void)p;
  int64_t mode = status_number("self", "Seccomp", 10);
  if (mode < 0) return untried("no /proc");
  return mode == 2 ? is_closed("a filter is installed") : is_open("no filter is installed");
}

static enum ending secure_bits(const struct probe *p) {
  (void)p;
  int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
  return bits & SECBIT_NO_SETUID_FIXUP ? is_open("capabilities outlive a change of user")
                                       : is_closed("%x", (unsigned)bits);
}

/* The second column of the map is what ids are outside: 0 must not be among them. */
static enum ending host_ids(const struct probe *p) {
  char line[128];
  long inside, outside, count;
  int length = read_line(p->path, line, sizeof line);
  if (length < 0) return is_closed("%s", strerror(-length));
  if (sscanf(line, "%ld %ld %ld", &inside, &outside, &count) != 3) return untried("the map is empty");
  return outside < 65536 ? is_open("ids from %ld on are the host's %ld", inside, outside)
                         : is_closed("outside %ld", outside);
}

static enum ending become(const struct probe *p) { return ended(syscall(SYS_setresuid, p->first, p->first, p->first)); }

static enum ending real_time(const struct probe *p) {
  struct sched_param parameters = {.sched_priority = (int)p->second};
  return ended(sched_setscheduler(0, (int)p->first, &parameters));
}

static enum ending deadline(const struct probe *p) {
  (void)p;
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {.size = 48, .policy = 6, .runtime = 1000000, .deadline = 10000000, .period = 10000000};
  return ended(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

static enum ending be_nicer(const struct probe *p) { return ended(setpriority(PRIO_PROCESS, 0, (int)p->first)); }

static enum ending input_output_class(const struct probe *p) {
  return ended(syscall(SYS_ioprio_set, 1, 0, p->first << 13));
}

static enum ending oom_score(const struct probe *p) {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return is_closed("%s", strerror(errno));
  return ended(write(fd, p->path, strlen(p->path)));
}

static enum ending raise_limit(const struct probe *p) {
  struct rlimit limit;
  if (getrlimit((__rlimit_resource_t)p->first, &limit)) return is_closed("%s", strerror(errno));
  if (limit.rlim_max == RLIM_INFINITY) return is_open("there is no limit");
  limit.rlim_max++;
  return ended(setrlimit((__rlimit_resource_t)p->first, &limit));
}

/* Limit 1 keeps the host's core dump helper from being started; it must be there, and stay. */
static enum ending core_dumps(const struct probe *p) {
  (void)p;
  struct rlimit limit, zero = {0};
  setrlimit(RLIMIT_CORE, &zero);
  if (getrlimit(RLIMIT_CORE, &limit)) return untried("%s", strerror(errno));
  return limit.rlim_cur == 1 && limit.rlim_max == 1 ? is_closed("the limit is 1 and stays")
                                                    : is_open("the limit became %lld", (long long)limit.rlim_cur);
}

static enum ending lock_memory(const struct probe *p) {
  (void)p;
  size_t size = (size_t)1 << 30;
  void *memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return untried("%s", strerror(errno));
  return ended(mlock2(memory, size, MLOCK_ONFAULT));
}

/* The old way out of a chroot; at most it may lead back to the sandbox's own root. */
static enum ending leave_chroot(const struct probe *p) {
  (void)p;
  struct stat before, after;
  const char *directory = scratch_directory();
  if (!directory || stat("/", &before)) return untried("no directory to write to");
  int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (chroot(directory)) return is_closed("%s", strerror(errno));
  if (fchdir(root)) return is_closed("%s", strerror(errno));
  for (int i = 0; i < 64; i++)
    if (chdir("..")) break;
  if (chroot(".") || stat("/", &after)) return is_closed("%s", strerror(errno));
  remove_scratch();
  return before.st_dev == after.st_dev && before.st_ino == after.st_ino ? is_closed("it leads back to our own root")
                                                                       : is_open("another root was reached");
}

static enum ending rename_host(const struct probe *p) {
  char name[65];
  gethostname(name, sizeof name);
  return ended(syscall(p->first, name, strnlen(name, sizeof name)));
}

static enum ending hang_up(const struct probe *p) {
  (void)p;
  setsid(); /* so that there is no terminal to hang up */
  return ended(vhangup());
}

const struct probe PRIVILEGE_PROBES[] = {
    {"capability-bounding-set", capability_set, "CapBnd", 1, 0, 0},
    {"capability-permitted-set", capability_set, "CapPrm", 0, 0, 0},
    {"capability-effective-set", capability_set, "CapEff", 0, 0, 0},
    {"capability-inheritable-set", capability_set, "CapInh", 0, 1, 0},
    {"capability-ambient-set", capability_set, "CapAmb", 0, 1, 0},
    {"capability-raise-admin", raise_capability, NULL, CAP_SYS_ADMIN, 0, 0},
    {"capability-raise-ptrace", raise_capability, NULL, CAP_SYS_PTRACE, 0, 0},
    {"capability-raise-net-admin", raise_capability, NULL, CAP_NET_ADMIN, 0, 0},
    {"capability-ambient-admin", raise_ambient, NULL, CAP_SYS_ADMIN, 0, 0},
    {"capability-of-file-admin", file_capability, NULL, CAP_SYS_ADMIN, 0, 0},
    {"capability-of-file-net-admin", file_capability, NULL, CAP_NET_ADMIN, 0, 0},
    {"capability-of-file-read-search", file_capability, NULL, CAP_DAC_READ_SEARCH, 0, 0},
    {"no-seccomp-filter", no_filter, NULL, 0, 0, 0},
    {"secure-bits", secure_bits, NULL, 0, 0, 0},
    {"ids-user-map", host_ids, "/proc/self/uid_map", 0, 0, 0},
    {"ids-group-map", host_ids, "/proc/self/gid_map", 0, 0, 0},
    {"ids-become-unmapped", become, NULL, 70000, 0, 0},
    {"schedule-fifo", real_time, NULL, SCHED_FIFO, 1, 0},
    {"schedule-round-robin", real_time, NULL, SCHED_RR, 1, 0},
    {"schedule-deadline", deadline, NULL, 0, 0, 0},
    {"schedule-negative-nice", be_nicer, NULL, -5, 0, 0},
    {"schedule-io-real-time", input_output_class, NULL, 1, 0, 0},
    {"oom-score-immune", oom_score, "-1000", 0, 0, 0},
    {"limit-raise-files", raise_limit, NULL, RLIMIT_NOFILE, 0, 0},
    {"limit-raise-memlock", raise_limit, NULL, RLIMIT_MEMLOCK, 0, 0},
    {"limit-raise-real-time", raise_limit, NULL, RLIMIT_RTPRIO, 0, 0},
    {"limit-raise-nice", raise_limit, NULL, RLIMIT_NICE, 0, 0},
    {"limit-core-dumps", core_dumps, NULL, 0, 0, 0},
    {"lock-memory", lock_memory, NULL, 0, 0, 0},
    {"chroot-escape", leave_chroot, NULL, 0, 0, 0},
    {"set-hostname", rename_host, NULL, SYS_sethostname, 0, 0},
    {"set-domainname", rename_host, NULL, SYS_setdomainname, 0, 0},
    {"hang-up", hang_up, NULL, 0, 0, 0},
    {0},
};
