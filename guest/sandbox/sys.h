/* sys.h: the /sys of a sandbox: of the host's nothing, but its own cgroups, read-only, and its processors. */
#ifndef SANDKEEP_SYS_H
#define SANDKEEP_SYS_H

#include "sandbox/sandbox.h"

/*
 * In the root that is being built: mounts it. The mounts of `spec->views` have descriptors from `first_view` on, and
 * programs see `cpus` processors. 0 or errno.
 */
int sys_mount(const struct sandbox_spec *spec, int first_view, uint32_t cpus);

#endif
