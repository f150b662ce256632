/* probe_proc.c: the host's kernel through /proc: settings to write, and memory, keys, timers and addresses to read. */
#define _GNU_SOURCE
#include "probe.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A masked file opens and is empty (/dev/null over it): only content counts. */
static enum ending content(const struct probe *p) {
  char byte[16];
  int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return is_closed("%s", strerror(errno));
  ssize_t got = read(fd, byte, sizeof byte);
  if (got < 0 && errno != EAGAIN) return is_closed("%s", strerror(errno));
  return got ? is_open("it has content") : is_closed("it is empty");
}

/* Opening for writing, unless what opens is /dev/null laid over it. */
static enum ending writable(const struct probe *p) {
  struct stat facts;
  int fd = open(p->path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return is_closed("%s", strerror(errno));
  if (!fstat(fd, &facts) && S_ISCHR(facts.st_mode)) return is_closed("masked");
  return is_open("%s opened for writing", p->path);
}

/* Any hexadecimal number of `first` digits or more at a line's start that is not all zeros. */
static enum ending addresses(const struct probe *p) {
  char line[512];
  FILE *file = fopen(p->path, "re");
  if (!file) return is_closed("%s", strerror(errno));
  while (fgets(line, sizeof line, file)) {
    const char *word = line + strspn(line, " ");
    size_t digits = strspn(word, "0123456789abcdef");
    if (digits < (size_t)p->first || strspn(word, "0") >= digits) continue;
    fclose(file);
    return is_open("it shows %.*s", (int)digits, word);
  }
  fclose(file);
  return is_closed("it shows no address");
}

static char found[256];

static int try_writing(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  /* /proc/PID and the like are tried one by one elsewhere */
  if (place->level == 1 && (isdigit((unsigned char)path[place->base]) || !strcmp(path + place->base, "self") ||
                            !strcmp(path + place->base, "thread-self")))
    return kind == FTW_D ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
  if (kind != FTW_F || !S_ISREG(facts->st_mode)) return FTW_CONTINUE;
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return FTW_CONTINUE;
  close(fd);
  snprintf(found, sizeof found, "%s", path);
  return FTW_STOP;
}

/* Every file of /proc that belongs to no process. */
static enum ending anything_writable(const struct probe *p) {
  if (nftw(p->path, try_writing, 32, FTW_PHYS | FTW_ACTIONRETVAL) == FTW_STOP)
    return is_open("%s opened for writing", found);
  return is_closed("nothing opens for writing");
}

/* Other kernels' and other sandboxes' processes: each pid that answers a signal must be in our /proc. */
static enum ending foreign_processes(const struct probe *p) {
  (void)p;
  char path[64];
  /* PPid of PID 1 is a process outside, where that is visible at all */
  int64_t parent = status_number("1", "PPid", 10);
  if (parent > 0) return is_open("PID 1 has a visible parent, %lld", (long long)parent);
  snprintf(path, sizeof path, "/proc/%d", getpid());
  if (access(path, F_OK)) return is_open("/proc is not of this PID namespace");
  return is_closed("PID 1 has no parent here");
}

const struct probe PROC_PROBES[] = {
    {"write-core-pattern", writable, "/proc/sys/kernel/core_pattern", 0, 0, 0},
    {"write-modprobe", writable, "/proc/sys/kernel/modprobe", 0, 0, 0},
    {"write-poweroff-command", writable, "/proc/sys/kernel/poweroff_cmd", 0, 0, 0},
    {"write-sysrq-setting", writable, "/proc/sys/kernel/sysrq", 0, 0, 0},
    {"write-panic", writable, "/proc/sys/kernel/panic", 0, 0, 0},
    {"write-hostname", writable, "/proc/sys/kernel/hostname", 0, 0, 0},
    {"write-ns-last-pid", writable, "/proc/sys/kernel/ns_last_pid", 0, 0, 0},
    {"write-shmmax", writable, "/proc/sys/kernel/shmmax", 0, 0, 0},
    {"write-randomize-va", writable, "/proc/sys/kernel/randomize_va_space", 0, 0, 0},
    {"write-drop-caches", writable, "/proc/sys/vm/drop_caches", 0, 0, 0},
    {"write-overcommit", writable, "/proc/sys/vm/overcommit_memory", 0, 0, 0},
    {"write-swappiness", writable, "/proc/sys/vm/swappiness", 0, 0, 0},
    {"write-mmap-min-addr", writable, "/proc/sys/vm/mmap_min_addr", 0, 0, 0},
    {"write-panic-on-oom", writable, "/proc/sys/vm/panic_on_oom", 0, 0, 0},
    {"write-file-max", writable, "/proc/sys/fs/file-max", 0, 0, 0},
    {"write-protected-symlinks", writable, "/proc/sys/fs/protected_symlinks", 0, 0, 0},
    {"write-suid-dumpable", writable, "/proc/sys/fs/suid_dumpable", 0, 0, 0},
    {"write-binfmt-misc", writable, "/proc/sys/fs/binfmt_misc/register", 0, 0, 0},
    {"write-ip-forward", writable, "/proc/sys/net/ipv4/ip_forward", 0, 0, 0},
    {"write-user-namespaces", writable, "/proc/sys/user/max_user_namespaces", 0, 0, 0},
    {"write-any-setting", anything_writable, "/proc/sys", 0, 0, 0},
    {"write-sysrq", writable, "/proc/sysrq-trigger", 0, 0, 0},
    {"write-irq-affinity", writable, "/proc/irq/default_smp_affinity", 0, 0, 0},
    {"write-mtrr", writable, "/proc/mtrr", 0, 0, 0},
    {"write-acpi-wakeup", writable, "/proc/acpi/wakeup", 0, 0, 0},
    {"write-pressure", writable, "/proc/pressure/memory", 0, 0, 0},
    {"write-timer-list", writable, "/proc/timer_list", 0, 0, 0},
    {"write-any-proc", anything_writable, "/proc", 0, 0, 0},
    {"read-kcore", content, "/proc/kcore", 0, 0, 0},
    {"read-kmsg", probe_opening, "/proc/kmsg", O_RDONLY, 0, 0},
    {"read-keys", content, "/proc/keys", 0, 0, 0},
    {"read-key-users", content, "/proc/key-users", 0, 0, 0},
    {"read-timer-list", content, "/proc/timer_list", 0, 0, 0},
    {"read-sched-debug", content, "/proc/sched_debug", 0, 0, 0},
    {"read-vmallocinfo", content, "/proc/vmallocinfo", 0, 0, 0},
    {"read-slabinfo", content, "/proc/slabinfo", 0, 0, 0},
    {"read-pagetypeinfo", content, "/proc/pagetypeinfo", 0, 0, 0},
    {"read-kpagecount", content, "/proc/kpagecount", 0, 0, 0},
    {"read-kpageflags", content, "/proc/kpageflags", 0, 0, 0},
    {"read-kpagecgroup", content, "/proc/kpagecgroup", 0, 0, 0},
    {"read-latency-stats", content, "/proc/latency_stats", 0, 0, 0},
    {"read-scsi", content, "/proc/scsi/scsi", 0, 0, 0},
    {"read-vmcore", content, "/proc/vmcore", 0, 0, 0},
    {"address-kallsyms", addresses, "/proc/kallsyms", 8, 0, 0},
    {"address-iomem", addresses, "/proc/iomem", 8, 0, 0},
    {"address-ioports", addresses, "/proc/ioports", 4, 0, 0},
    {"foreign-processes", foreign_processes, NULL, 0, 0, 0},
    {0},
};
