/*
 * socket_count.h: how many sockets a sandbox has, as the kernel counts them for its network namespace. What they hold may be
 * charged to no cgroup, so the number of some kinds is limited (grants.h).
 */
#ifndef SANDKEEP_SOCKET_COUNT_H
#define SANDKEEP_SOCKET_COUNT_H

#include <stddef.h>

/* opens what sockets are counted by, before the launcher hides it (machine_hide_numbers()); 0 or errno */
int socket_count_open(void);
/* puts what was opened into `fds`, which has room for SOCKET_COUNT_FILES; returns how many */
#define SOCKET_COUNT_FILES 2
size_t socket_count_descriptors(int *fds);

/* LONG_MAX when it cannot be found out */
long socket_count_netlink(void);
/*
 * Sockets of UDP, and others of which the kernel does not tell the kind: TCP's that are not connected. It counts a socket of UDP
 * among those of UDP only once it has a port, so this is what is left when those of every other kind are taken away.
 */
long socket_count_datagram(void);

#endif
