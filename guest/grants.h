/*
 * grants.h: the few calls that programs of a sandbox may make only through the agent, because only counting keeps them
 * within bounds. The filter holds such a call back (seccomp.h) and tells the agent, which makes it in the caller's place:
 *
 *   socket(AF_NETLINK, …, NETLINK_ROUTE)    up to GRANTS_NETLINK at once. The kernel charges to nobody what such a socket
 *                                           holds and has not been read.
 *   setsockopt(…, SOL_SOCKET, SO_RCVBUF)    for every socket but those: a larger buffer would multiply what they hold
 */
#ifndef SANDKEEP_GRANTS_H
#define SANDKEEP_GRANTS_H

#include "seccomp.h"

/* routing sockets of one sandbox, some that the launcher opened in its network namespace included */
#define GRANTS_NETLINK 32

/* answers what arrives on `listener` in the agent's loop; takes it over. 0 or errno */
int grants_begin(int listener, const struct seccomp_pass *pass);

#endif
