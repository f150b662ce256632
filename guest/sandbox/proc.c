/* proc.c: the masks of proc.h. */
#define _GNU_SOURCE
#include "sandbox/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "shared/mountapi.h"

/* Files that tell of the host or reach into it. Those that this kernel lacks are passed over. */
static const char *const masked[] = {
    /* its memory, keys, symbols and settings */
    "proc/kcore", "proc/keys", "proc/key-users", "proc/sysrq-trigger", "proc/kallsyms", "proc/config.gz", "proc/cmdline",
    "proc/bootconfig", "proc/iomem", "proc/ioports", "proc/modules", "proc/vmallocinfo", "proc/mtrr", "proc/mdstat",
    /* what it is doing: other sandboxes' work would show in these */
    "proc/timer_list", "proc/latency_stats", "proc/sched_debug", "proc/schedstat", "proc/interrupts", "proc/softirqs",
    "proc/buddyinfo", "proc/pagetypeinfo", "proc/zoneinfo", "proc/slabinfo", "proc/allocinfo", "proc/diskstats",
    "proc/partitions", "proc/crypto"};

/* folders that a program inside has no use for */
static const char *const hidden[] = {"proc/acpi", "proc/scsi",     "proc/fs",     "proc/irq",           "proc/sys/fs/quota",
                                     "proc/bus",  "proc/pressure", "proc/driver", "proc/dynamic_debug"};

/* mounts another time what is at `from` in place of each path that exists */
static int cover(const char *const *paths, size_t count, const char *from, const char **step) {
  int error = 0;
  for (size_t i = 0; i < count && !error; i++) {
    if (faccessat(AT_FDCWD, paths[i], F_OK, 0) < 0) continue;
    *step = paths[i];
    int mount = sys_open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (mount < 0 || sys_move_mount(mount, "", AT_FDCWD, paths[i], MOVE_MOUNT_F_EMPTY_PATH) < 0) error = errno;
    if (mount >= 0) close(mount);
  }
  return error;
}

int proc_mask(const char **step) {
  int error = cover(masked, sizeof masked / sizeof *masked, "dev/mask", step);
  return error ? error : cover(hidden, sizeof hidden / sizeof *hidden, "dev/empty", step);
}
