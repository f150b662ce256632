/* confine.h: what the launcher's workers give up before they read hostile trees. */
#ifndef SANDKEEP_CONFINE_H
#define SANDKEEP_CONFINE_H

#include <stddef.h>

/*
 * Leaves the calling process what it takes to read and write files of any owner below these directories, and nothing
 * else: no file outside of them (where the kernel has Landlock), no mount, no network, no other process, no program.
 * 0 or errno.
 */
int confine_to(const int *directories, size_t count);

#endif
