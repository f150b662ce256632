/*
 * view_source.h: what the kernel counts for this sandbox alone: the numbers behind the files of view.h. They come from the
 * sandbox's own cgroups as programs inside see them, so a limit that changes, and a sandbox that another daemon or
 * launcher took over, need nothing more.
 */
#ifndef SANDKEEP_VIEW_SOURCE_H
#define SANDKEEP_VIEW_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* in bytes; what the kernel does not say is 0 */
struct view_memory {
  uint64_t total, free, available;
  uint64_t file, anonymous, shared, mapped, dirty, writeback, huge;
  uint64_t active_anonymous, inactive_anonymous, active_file, inactive_file, locked;
  uint64_t slab_reclaimable, slab_fixed, stacks, page_tables;
  /* counts */
  uint64_t faults, major_faults;
};

/* in microseconds, since the sandbox began */
struct view_time {
  uint64_t user, system;
};

/* what is read before the sandbox's first process gives up its sight of the host */
struct view_source {
  int cpu_time;         /* the cgroup's file with its time on processors, or -1 */
  int processes;        /* the kernel's own /proc/loadavg, for the last field, which is the sandbox's own; or -1 */
  uint64_t host_memory; /* in bytes: most that a sandbox can have, whatever its limit */
};

void view_source_set(const struct view_source *source);
const struct view_source *view_source(void);
struct view_memory view_memory(void);
struct view_time view_time(void);
/* processes and threads that there are now */
uint64_t view_processes(void);
/* the number of the newest process */
uint64_t view_last_process(void);

/* the number after `name` and a blank at the beginning of a line of `text`; 0 when there is none. Exposed for fuzzing. */
uint64_t view_field(const char *text, const char *name);

#endif
