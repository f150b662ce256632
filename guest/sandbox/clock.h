/*
 * clock.h: a time namespace for each sandbox, in which the time since boot (CLOCK_BOOTTIME, CLOCK_MONOTONIC) begins with the
 * sandbox. The kernel then tells programs inside one truth everywhere: uptime, sysinfo(), start times in /proc/<pid>/stat,
 * and absolute timers. Made-up numbers in /proc/uptime alone would not agree with the others.
 *
 * A kernel that has none, or no more, leaves the host's clock.
 */
#ifndef SANDKEEP_CLOCK_H
#define SANDKEEP_CLOCK_H

#include <time.h>

/* the moment at which a sandbox begins, by the host's clocks */
struct clock_zero {
  struct timespec monotonic, boot;
};

struct clock_zero clock_zero(void);

/*
 * Moves the calling process, which must have no threads, and all its children to come into a new time namespace whose clocks
 * stood at 0 at `zero`. A process that was started before `zero` would have a start time below 0, which the kernel does not
 * have: so `zero` is taken before the first process is. Needs the host's /proc and CAP_SYS_ADMIN, and CAP_SYS_TIME for the
 * namespace that it makes. 0 or errno.
 */
int clock_enter(const struct clock_zero *zero);

#endif
