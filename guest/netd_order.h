/*
 * netd_order.h: what the launcher says to netd on the control socket, a SOCK_SEQPACKET pair: one struct netd_order a
 * message. NETD_ADD has the sockets beside it (SCM_RIGHTS): the first three of enum net_listener, or all.
 */
#ifndef SANDKEEP_NETD_ORDER_H
#define SANDKEEP_NETD_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "netd.h"

enum netd_order_kind { NETD_ADD = 1, NETD_DROP = 2, NETD_CUT = 3, NETD_MODE = 4 };

struct netd_order {
  uint32_t kind;
  /* enum net_mode, of NETD_ADD and NETD_MODE */
  uint32_t mode;
  char machine[NETD_NAME + 1];
};

bool netd_is_name(const char *name);

#endif
