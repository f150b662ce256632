/*
 * netd_order.h: what the launcher says to netd on the control socket, a SOCK_SEQPACKET pair: one struct netd_order a
 * message. NETD_ADD has the sockets beside it (SCM_RIGHTS), in the order of enum net_listener.
 *
 * NETD_AGENT is said by both: netd asks for a connection to a machine's agent, and the launcher answers with it as the
 * first socket, or with none. The launcher has begun it with HOLDERS, so netd can ask the agent for nothing else.
 *
 * The launcher forks netd without an exec, so both are always of one build: the struct needs no version.
 */
#ifndef SANDKEEP_NETD_ORDER_H
#define SANDKEEP_NETD_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "netd/netd.h"

enum netd_order_kind { NETD_ADD = 1, NETD_DROP = 2, NETD_CUT = 3, NETD_MODE = 4, NETD_AGENT = 5 };

struct netd_order {
  uint32_t kind;
  /* enum net_mode, of NETD_ADD and NETD_MODE */
  uint32_t mode;
  /* which sockets are there: a bit for each of enum net_listener, of NETD_ADD and NETD_AGENT */
  uint32_t sockets;
  char machine[NETD_NAME + 1];
};

bool netd_is_name(const char *name);

/* `sockets` may be NULL; `order.sockets` is filled in. Returns 0 or an errno. */
int netd_order_send(int fd, struct netd_order order, const struct net_listeners *sockets);
/* Takes one order, without waiting, and the sockets that came with it. Returns 0 or an errno: EAGAIN or EINTR when
 * none has come yet, EBADMSG for a malformed one, anything else when no more can come. */
int netd_order_receive(int fd, struct netd_order *order, struct net_listeners *sockets);

#endif
