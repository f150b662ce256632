/*
 * net.h: the network of one sandbox, made inside its network namespace.
 *
 * The namespace has no interface but `lo`, and every address is local to it: a packet to 93.184.216.34
 * leaves a socket of the sandbox, is looped through lo, and the ruleset hands it to one of our listeners, which are
 * bound inside the namespace and held outside the sandbox. The listener learns the destination the program meant.
 *
 *   program ──▶ chain output ──▶ lo ──▶ chain prerouting ──▶ transparent listener, held by netd
 *      ▲        (count, reject)         (hand over, drop)         │
 *      └──────────────────────── lo ◀── chain output ◀────────────┘  marked NET_MARK, source = that destination
 *
 * What comes in through a port begins inside: dial.c connects to it from the sandbox's own loopback address.
 *
 *   dial.c ──▶ chain ports: NET_PORT_DSCP is counted as received, and marked ──▶ a program's listener
 *      ▲                                                                             │ what it accepts has the mark
 *      └────── NET_PORT_HOPS ◀── chain ports: the mark is counted as sent ◀──────────┘
 *
 * dial.c takes no packet that may have come over a router, and to the ruleset these are all that it has not counted: a
 * program that connects to dial.c's port at the moment in which dial.c connects to its own has a connection that was
 * never accepted and has no mark.
 *
 * There is no connection tracking, no address translation and no interface on the host. What the sandbox can do about it
 * is nothing: the namespace belongs to the host's user namespace, so that no process inside has a capability over it;
 * a raw socket, a transparent one and a mark all need one. (Ports below 1024 would too, so they are opened to everybody
 * inside.)
 *
 * Every function is called by a thread that is inside the sandbox's network namespace, with CAP_NET_ADMIN and
 * CAP_NET_RAW over it, and returns 0 or an errno.
 */
#ifndef SANDKEEP_NET_H
#define SANDKEEP_NET_H

#include <stdint.h>

/* The sandbox's own addresses, the source of whatever it sends. The IPv6 one is a unique local address: resolvers
 * then sort IPv4 first, so that a host without IPv6 costs no program a failed attempt. */
#define NET_ADDRESS "198.18.0.2"
#define NET_ADDRESS6 "fd73:616e:646b::2"

/* Where the listeners are bound and where the resolver answers on port 53. /etc/resolv.conf inside must say
 * "nameserver 198.18.0.1". The port is one that programs inside do not need. */
#define NET_GATEWAY "198.18.0.1"
#define NET_GATEWAY6 "fd73:616e:646b::1"
#define NET_PORT 1
#define NET_RESOLVER_PORT 53

/* on every packet that we send into the sandbox; nothing inside can set a mark */
#define NET_MARK 0x534bu

/* Packets between dial.c and a port. The kind of service is one that is for local use; a program that asks for it on its
 * own connections has them counted with the others. The mark is the kernel's to give, and the number of hops that are left
 * of 255 the ruleset's. */
#define NET_PORT_MARK 0x534cu
#define NET_PORT_DSCP 51u
#define NET_PORT_HOPS 255u

enum net_mode {
  NET_DENY_ALL = 0,  /* nothing leaves or comes in; only the sandbox's own addresses answer */
  NET_ALLOW_ALL = 1, /* TCP and UDP reach the listeners; everything else is rejected */
  NET_CUSTOM = 2,    /* the same to the kernel; netd says of each request that a policy decides it */
};

/* lo, addresses, routes and the ruleset in NET_DENY_ALL; wants /proc to be mounted */
int net_prepare(void);

/* Takes effect at once and as a whole, for open connections too: after NET_DENY_ALL no packet of them passes, except
 * the reset that says so. Follow it with netd_cut(), which ends what is open outside. */
int net_set_mode(enum net_mode mode);

/* The sockets through which a sandbox reaches the outside, one to ask the kernel about its own (diag.h), and one that tells
 * what the ruleset refuses (nflog.h). The IPv6 ones are -1 on a host without IPv6, the last one where the kernel cannot
 * tell. */
enum net_listener {
  NET_TCP4, NET_UDP4, NET_RAW4, NET_TCP6, NET_UDP6, NET_RAW6, NET_DIAG, NET_REFUSED, NET_LISTENERS
};
struct net_listeners {
  int fd[NET_LISTENERS];
};

/* Opens them, nonblocking and close-on-exec. May be called again while the sockets of an earlier call are still open
 * somewhere: both then get a share of what is new, until the older ones are closed. */
int net_listen(struct net_listeners *out);
void net_close(struct net_listeners *listeners);

/* bytes of whole packets since net_prepare(), through the listeners and through ports */
int net_counters(uint64_t *received, uint64_t *sent);

#endif
