/* egress_filter.h: the system calls that the egress process may make. */
#ifndef SANDKEEP_EGRESS_FILTER_H
#define SANDKEEP_EGRESS_FILTER_H

/* For the caller and all it becomes; needs no_new_privs. Returns 0 or an errno. */
int egress_filter_install(void);

#endif
