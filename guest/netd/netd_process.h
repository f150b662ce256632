/* netd_process.h: what the process of netd, and Node after it, may use and no longer do. */
#ifndef SANDKEEP_NETD_PROCESS_H
#define SANDKEEP_NETD_PROCESS_H

#include <sys/types.h>

/* Many descriptors and no core dumps. */
void process_limit(void);

/* Gives up every capability, for good, and root's user and groups unless `user` is 0. Returns 0 or an errno. */
int process_become(uid_t user);

/* The user that an environment variable names; 0 without it. Returns 0 or an errno. */
int process_user(const char *variable, uid_t *user);

/* the descriptor of netd's control socket */
#define NETD_CONTROL 3

/* Lets go of the launcher's descriptors but for the control socket, of its terminal and of the signals that it blocks. */
void netd_begin(int control);

/*
 * netd's own limits: many descriptors, no core dumps, no capability. With SANDKEEP_NETD_UID in the environment it is that
 * user, has an empty root, and makes no system call but those of its loop. The sockets come from the launcher, which also
 * connects to agents for it: using them takes no privilege and no path. Returns 0 or an errno.
 */
int netd_confine(void);

#endif
