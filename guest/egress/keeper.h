/*
 * keeper.h: the process that starts the egress process for netd, which has no privilege to confine a process.
 *
 * Where the environment says so it enters a root of its own first, with nothing in it but what Node needs to run, and
 * each egress process gives up its user, its capabilities and most of the kernel's calls before it is Node:
 *
 *   SANDKEEP_EGRESS_UID        its user and group; without it, it is root without capabilities, in the host's root
 *   SANDKEEP_EGRESS_VIEW       paths that it may read, one a line, links as they are
 *   SANDKEEP_EGRESS_LOGS       the folder that it may write to
 *   SANDKEEP_EGRESS_SOCKET     where the keeper listens in its place: descriptor SANDKEEP_EGRESS_SOCKET_FD
 *   SANDKEEP_EGRESS_SETTINGS   a file that is opened for it at each start: descriptor SANDKEEP_EGRESS_SETTINGS_FD
 *
 * netd says one letter at a time: KEEPER_START with the channel's other end beside it, KEEPER_END. The
 * keeper answers KEEPER_ENDED. The keeper ends with netd, and the egress process with the keeper.
 */
#ifndef SANDKEEP_KEEPER_H
#define SANDKEEP_KEEPER_H

#define KEEPER_START 's'
#define KEEPER_END 'k'
#define KEEPER_ENDED 'e'

/* forks it; *fd is netd's end, close-on-exec. Returns 0 or an errno. To be called with all privileges. */
int keeper_start(char *const argv[], int *fd);

#endif
