/* caps.h: gives up, for good, what no program inside a sandbox may have. */
#ifndef SANDKEEP_CAPS_H
#define SANDKEEP_CAPS_H

#include <stdint.h>

/*
 * Leaves the capabilities that Debian's packages, sudo and servers need of a root in its own user namespace, and takes
 * all others out of the bounding set, so that no program and no setuid or capable file has one again. Needs
 * CAP_SETPCAP. Returns 0 or an errno, after which the process must not go on.
 */
int caps_drop(void);

/* From here on no exec gains a privilege: setuid files and file capabilities are ignored. Returns 0 or an errno. */
int no_new_privs(void);

/* Keeps of the calling process's capabilities only these, and none for programs that it would run. Returns 0 or an errno. */
int caps_keep(uint64_t capabilities);

#endif
