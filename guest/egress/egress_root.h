/* egress_root.h: the root that the egress process lives in: what it is shown, read-only, its logs, and nothing else. */
#ifndef SANDKEEP_EGRESS_ROOT_H
#define SANDKEEP_EGRESS_ROOT_H

/* Leaves the host's mounts for good. view: paths, one a line, each shown where it is on the host, links as links; those
 * that are not there are left out. logs: a folder that may be written to, or NULL. Returns 0 or an errno. */
int egress_root_enter(const char *view, const char *logs);

#endif
