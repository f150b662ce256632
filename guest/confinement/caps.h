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

/* No program that this process runs can have other capabilities than these. Needs CAP_SETPCAP. Returns 0 or an errno. */
int caps_bound(uint64_t for_programs);

/* Keeps only these of the calling process's own capabilities. Returns 0 or an errno. */
int caps_limit(uint64_t own);

#endif
