/*
 * grants.h: the few calls that programs of a sandbox make only through us. The filter holds such a call back (seccomp.h)
 * and tells the agent; a process of the agent's makes it in the caller's place:
 *
 *   socket(AF_NETLINK, …, NETLINK_ROUTE)    up to GRANTS_NETLINK at once. The kernel charges to no sandbox what such a socket
 *                                           holds and has not been read.
 *   socket(AF_INET…, SOCK_DGRAM, …)         while there are fewer than GRANTS_DATAGRAM: a datagram that is begun (MSG_MORE) and
 *                                           never sent is charged to no sandbox
 *   setsockopt(…, SOL_SOCKET, SO_RCVBUF)    for every socket but those: a larger buffer would multiply what they hold. Of
 *                                           TCP at most GRANTS_WAITING before it is connected: connections that wait to
 *                                           be accepted inherit the buffer, and are charged to no sandbox either.
 *   statfs, fstatfs                         of its root, with the sandbox's own limit and use of the disk (view_disk.h)
 *   sysinfo                                 the sandbox's own memory and load (view.h)
 *   seccomp, prctl(PR_SET_SECCOMP)          to install a filter: as many as filters.h says; the caller makes the call itself
 *
 * That process lives while there are such calls and a few seconds more. It looks up paths and touches memory of programs,
 * for which the agent would have to wait: some of it may lie on the file system that the agent serves (view.h).
 */
#ifndef SANDKEEP_GRANTS_H
#define SANDKEEP_GRANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "confinement/seccomp.h"

/* routing sockets of one sandbox, some that the launcher opened in its network namespace included */
#define GRANTS_NETLINK 32
/* sockets of UDP of one sandbox; of TCP those that are not connected count too (socket_count.h) */
#define GRANTS_DATAGRAM 512
/* bytes of a buffer, of which the kernel makes twice as many: what a socket has unless it asks */
#define GRANTS_WAITING 65536

/* opens what grants are counted by, before the launcher hides it (machine_hide_numbers()); 0 or errno */
int grants_open(void);

/* answers what arrives on `listener` in the agent's loop; takes it over. 0 or errno */
int grants_begin(int listener, const struct seccomp_pass *pass);

/* how many filters programs may have from now on; those that are there stay, and more than FILTERS_MOST are not to be had */
void grants_limit_filters(uint32_t most);

/* call it for every child of the agent that ended or stopped; true when it was the process of the grants */
bool grants_waited(pid_t pid, int status);

#endif
