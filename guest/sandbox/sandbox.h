/*
 * sandbox.h: the namespaces of a sandbox, made by the launcher, and what its first process does until it is the agent.
 *
 *   launcher                                   first process (PID 1 inside)
 *   ────────                                   ────────────────────────────
 *   sandbox_clone() ─── clone3 ──────────────▶ joins its cgroups, waits
 *   writes the id maps
 *   sandbox_activate(): root mount + options ─▶ builds /, drops every privilege
 *   ◀────────────────── ready, or what failed ─ serves as the agent
 */
#ifndef SANDKEEP_SANDBOX_H
#define SANDKEEP_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/overlay.h"

#define SANDBOX_IDS 65536u
#define SANDBOX_NO_NEW_PRIVS 1u
#define SANDBOX_CGROUPS 8

/* one of the sandbox's cgroups as programs inside see it: by it they know how much memory and time they have */
struct cgroup_view {
  int mount;     /* detached and read-only */
  char name[32]; /* of its controller, below /sys/fs/cgroup; "" for version 2, which is that folder itself */
};

struct sandbox_spec {
  uid_t base;         /* host id of the sandbox's root; SANDBOX_IDS ids from here are its own */
  int listener;       /* what the agent listens on */
  int journal;        /* directory of journals */
  int memory_events;  /* or -1 */
  int cpu_time;       /* file of its cgroup with its time on processors, or -1 */
  int unified_cgroup; /* directory of its cgroup v2, which it is born into; -1 where there is none */
  int cgroups[SANDBOX_CGROUPS]; /* "cgroup.procs" of its v1 cgroups, open for writing */
  size_t cgroup_count;
  struct cgroup_view views[SANDBOX_CGROUPS];
  size_t view_count;
  const char *staging; /* an empty directory on which the root is built */
  int devices;         /* the detached mount of its own tree of devices, see device.h */
};

struct sandbox {
  pid_t pid;
  int pidfd;
  /* to the first process until it is ready; then -1 */
  int control;
};

#define SANDBOX_MOUNTS 8
#define SANDBOX_PATH 256
/* the root and other mounts, and for each the folder with its counts */
#define SANDBOX_DESCRIPTORS (2 * (1 + SANDBOX_MOUNTS))

struct sandbox_options {
  uint32_t flags;
  /* further file systems: where inside, and (in the same order) their mounts */
  uint32_t mount_count;
  char mount_paths[SANDBOX_MOUNTS][SANDBOX_PATH];
  /* of which mounts, the root being the first, a folder of view_disk.h comes after all of them: a bit for each */
  uint32_t counted;
  /* processors that programs inside see, 0 for all */
  uint32_t cpus;
  uint64_t shm_size;
};

/* The launcher as the owner of a sandbox's user namespace, who may do there what only owners may; and back. */
int become_owner(uid_t base);
void become_launcher(void);

/* the calling thread must be in the sandbox's network namespace already; 0 or errno */
int sandbox_clone(const struct sandbox_spec *spec, struct sandbox *out);
/* hands over the root mount, then those of `options`, then the folders of `counted`; the answer arrives on `control` */
int sandbox_activate(struct sandbox *s, const int *mounts, const struct sandbox_options *options);
/* reads the answer: true when ready, otherwise what failed; call when `control` is readable */
bool sandbox_answer(struct sandbox *s, struct failure *failure);

#endif
