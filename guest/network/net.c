/* net.c: makes, switches and measures the network of net.h. */
#define _GNU_SOURCE
#include "network/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "network/netlink.h"
#include "network/nflog.h"
#include "network/nft.h"
#include "network/settings.h"

#define TABLE "sandkeep"
#define RECEIVED "received"
#define SENT "sent"
/* the table that is awake in NET_DENY_ALL only */
#define BAR "sandkeep-bar"

/* lo is the first interface of every network namespace */
#define LOOPBACK 1

/* routing table with the route to everywhere, and the rule that leads to it */
#define ROUTES 100

/* connections that wait to be accepted, for each listener */
#define BACKLOG 512

static const uint8_t loopback4[4] = {127, 0, 0, 1};
static const uint8_t loopback6[16] = {[15] = 1};

/* whether rulesets tell what they refuse: until the kernel is found not to know how */
static bool tells = true;

/* one of the constants of net.h: parsing it cannot fail */
static size_t parse(int family, const char *text, uint8_t out[16]) {
  inet_pton(family, text, out);
  return family == AF_INET ? 4 : 16;
}

/* ---- addresses and routes ---- */

static void add_address(struct netlink *n, int family, const char *text) {
  uint8_t address[16];
  size_t length = parse(family, text, address);
  struct ifaddrmsg header = {.ifa_family = (uint8_t)family, .ifa_prefixlen = (uint8_t)(length * 8),
                             .ifa_flags = IFA_F_NODAD, .ifa_scope = RT_SCOPE_UNIVERSE, .ifa_index = LOOPBACK};
  netlink_begin(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &header, sizeof header);
  netlink_put(n, IFA_LOCAL, address, length);
  netlink_put(n, IFA_ADDRESS, address, length);
  netlink_end(n);
}

/* "local default dev lo src <source>": whatever the destination, the packet is delivered here */
static void add_route_to_everywhere(struct netlink *n, int family, const char *source, uint8_t table) {
  uint8_t address[16];
  size_t length = parse(family, source, address);
  struct rtmsg header = {.rtm_family = (uint8_t)family, .rtm_table = table, .rtm_protocol = RTPROT_STATIC,
                         .rtm_scope = RT_SCOPE_HOST, .rtm_type = RTN_LOCAL};
  netlink_begin(n, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &header, sizeof header);
  netlink_put_u32(n, RTA_OIF, LOOPBACK);
  netlink_put(n, RTA_PREFSRC, address, length);
  netlink_end(n);
}

/* The IPv4 route is in a table of its own: bind() looks for local addresses in the main ones only, so a program cannot
 * bind what is not its own. IPv6 asks the interfaces for that and needs no such care. */
static void add_rule(struct netlink *n) {
  struct fib_rule_hdr header = {.family = AF_INET, .table = ROUTES, .action = FR_ACT_TO_TBL};
  netlink_begin(n, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &header, sizeof header);
  netlink_put_u32(n, FRA_PRIORITY, ROUTES);
  netlink_end(n);
}

static void bring_up(struct netlink *n) {
  struct ifinfomsg header = {.ifi_family = AF_UNSPEC, .ifi_index = LOOPBACK, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
  netlink_begin(n, RTM_NEWLINK, NLM_F_ACK, &header, sizeof header);
  netlink_end(n);
}

/* what the kernel says where IPv6 is missing, not loaded, or switched off */
static bool without_ipv6(int error) {
  return error == EAFNOSUPPORT || error == EOPNOTSUPP || error == EACCES || error == ENODEV;
}

static int prepare_routes(void) {
  int fd = netlink_socket(NETLINK_ROUTE);
  if (fd < 0) return errno;
  struct netlink n;
  netlink_reset(&n);
  bring_up(&n);
  add_address(&n, AF_INET, NET_ADDRESS);
  add_rule(&n);
  add_route_to_everywhere(&n, AF_INET, NET_ADDRESS, ROUTES);
  int error = netlink_talk(fd, &n);
  if (!error) {
    netlink_reset(&n);
    add_address(&n, AF_INET6, NET_ADDRESS6);
    add_route_to_everywhere(&n, AF_INET6, NET_ADDRESS6, RT_TABLE_LOCAL);
    error = netlink_talk(fd, &n);
    if (without_ipv6(error)) error = 0;
  }
  close(fd);
  return error;
}

/* ---- the ruleset ---- */

/* chain "inside": accepts what stays among the sandbox's own addresses */
static void accept_inside(struct nft *t, uint8_t family, const void *address, size_t length) {
  nft_rule(t, "inside");
  nft_match_family(t, family);
  nft_match_destination(t, address, length);
  nft_accept(t);
  nft_rule_end(t);
}

static void add_inside_chain(struct nft *t) {
  uint8_t address[16];
  nft_add_chain(t, "inside");
  nft_rule(t, "inside");
  nft_match_family(t, NFPROTO_IPV4);
  nft_match_network(t, 127);
  nft_accept(t);
  nft_rule_end(t);
  size_t length = parse(AF_INET, NET_ADDRESS, address);
  accept_inside(t, NFPROTO_IPV4, address, length);
  accept_inside(t, NFPROTO_IPV6, loopback6, sizeof loopback6);
  length = parse(AF_INET6, NET_ADDRESS6, address);
  accept_inside(t, NFPROTO_IPV6, address, length);
}

static void jump_inside(struct nft *t, const char *chain) {
  nft_rule(t, chain);
  nft_jump(t, "inside");
  nft_rule_end(t);
}

static void hand_over(struct nft *t, int family, const char *gateway) {
  uint8_t address[16];
  size_t length = parse(family, gateway, address);
  uint8_t nfproto = family == AF_INET ? NFPROTO_IPV4 : NFPROTO_IPV6;
  nft_rule(t, "prerouting");
  nft_match_family(t, nfproto);
  nft_transparent(t, nfproto, address, length, NET_PORT);
  nft_accept(t);
  nft_rule_end(t);
}

static void count_sent(struct nft *t, uint8_t protocol) {
  nft_rule(t, "output");
  nft_match_protocol(t, protocol);
  nft_count(t, SENT);
  nft_accept(t);
  nft_rule_end(t);
}

/* a chain for TCP to one of the loopback addresses: counts what passes between a port and dial.c */
static void add_ports_chain(struct nft *t, const char *name, uint8_t family) {
  nft_add_chain(t, name);
  /* A server may ask for any kind of service, but it cannot lose the mark: that is checked first. */
  nft_rule(t, name);
  nft_match_mark(t, NET_PORT_MARK);
  nft_count(t, SENT);
  nft_set_hops(t, family, IPPROTO_TCP, NET_PORT_HOPS);
  nft_accept(t);
  nft_rule_end(t);
  nft_rule(t, name);
  nft_match_dscp(t, family, NET_PORT_DSCP);
  nft_count(t, RECEIVED);
  nft_set_mark(t, NET_PORT_MARK);
  nft_rule_end(t);
  nft_rule(t, name);
  nft_match_hops(t, family, NET_PORT_HOPS);
  nft_set_hops(t, family, IPPROTO_TCP, NET_PORT_HOPS - 1);
  nft_rule_end(t);
}

static void jump_to_ports(struct nft *t, const char *name, uint8_t family, const void *address, size_t length) {
  nft_rule(t, "output");
  nft_match_family(t, family);
  nft_match_destination(t, address, length);
  nft_match_protocol(t, IPPROTO_TCP);
  nft_jump(t, name);
  nft_rule_end(t);
}

/* Refusals are logged, where the kernel can, and answered, so that no program waits in vain. */
static void reject_the_rest(struct nft *t) {
  if (tells) {
    nft_rule(t, "output");
    nft_log(t);
    nft_rule_end(t);
  }
  nft_rule(t, "output");
  nft_reject(t);
  nft_rule_end(t);
}

/* The way out. A packet to a listener that is not there comes to the end of its chain and is dropped. */
static void add_way_out(struct nft *t) {
  nft_add_table(t, TABLE);
  nft_add_counter(t, RECEIVED);
  nft_add_counter(t, SENT);
  add_inside_chain(t);
  add_ports_chain(t, "ports4", NFPROTO_IPV4);
  add_ports_chain(t, "ports6", NFPROTO_IPV6);

  nft_add_base_chain(t, "prerouting", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE);
  jump_inside(t, "prerouting");
  hand_over(t, AF_INET, NET_GATEWAY);
  hand_over(t, AF_INET6, NET_GATEWAY6);

  nft_add_base_chain(t, "output", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER);
  nft_rule(t, "output");
  nft_match_mark(t, NET_MARK);
  nft_count(t, RECEIVED);
  nft_set_mark(t, 0); /* or what answers it would have it (reflect_marks) and count as ours */
  nft_accept(t);
  nft_rule_end(t);
  jump_to_ports(t, "ports4", NFPROTO_IPV4, loopback4, sizeof loopback4);
  jump_to_ports(t, "ports6", NFPROTO_IPV6, loopback6, sizeof loopback6);
  jump_inside(t, "output");
  count_sent(t, IPPROTO_TCP);
  count_sent(t, IPPROTO_UDP);
  reject_the_rest(t);
}

/* The bar across it: chains that come before those of the way out. In other modes than NET_DENY_ALL this table is asleep. */
static void add_bar(struct nft *t) {
  nft_add_table(t, BAR);
  add_inside_chain(t);

  nft_add_base_chain(t, "prerouting", NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE - 1);
  jump_inside(t, "prerouting");

  nft_add_base_chain(t, "output", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER - 1);
  /* Of what we send, only the resets of connections that were open get in: programs then need not wait. */
  nft_rule(t, "output");
  nft_match_mark(t, NET_MARK);
  nft_match_protocol(t, IPPROTO_TCP);
  nft_match_flags(t, TH_RST, TH_RST);
  nft_accept(t);
  nft_rule_end(t);
  nft_rule(t, "output");
  nft_match_mark(t, NET_MARK);
  nft_drop(t);
  nft_rule_end(t);
  jump_inside(t, "output");
  /* Attempts are logged, but not packets on connections that were open before. */
  if (tells) {
    nft_rule(t, "output");
    nft_match_protocol(t, IPPROTO_TCP);
    nft_match_flags(t, TH_SYN | TH_ACK | TH_RST, TH_SYN);
    nft_log(t);
    nft_rule_end(t);
  }
  nft_rule(t, "output");
  nft_match_protocol(t, IPPROTO_TCP);
  nft_reject_reset(t);
  nft_rule_end(t);
  reject_the_rest(t);
}

static int add_rules(void) {
  struct nft t;
  nft_begin(&t);
  add_way_out(&t);
  add_bar(&t);
  return nft_commit(&t);
}

static int prepare_rules(void) {
  int error = add_rules();
  /* what the kernel says of an expression, or a log, that it does not have */
  if (!tells || (error != ENOENT && error != EOPNOTSUPP && error != EINVAL)) return error;
  tells = false;
  error = add_rules();
  /* it was something else that it does not have */
  if (error) tells = true;
  return error;
}

/* ---- what net.h offers ---- */

int net_prepare(void) {
  int error = prepare_rules();
  if (!error) error = prepare_routes();
  return error ? error : net_settings_write();
}

int net_set_mode(enum net_mode mode) {
  struct nft t;
  nft_begin(&t);
  nft_wake_table(&t, BAR, mode == NET_DENY_ALL);
  return nft_commit(&t);
}

/* an option that is a number, of which we only want to know whether it was taken */
static bool set(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

static bool bind_to_gateway(int fd, int family) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(NET_PORT)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(NET_PORT)};
  inet_pton(AF_INET, NET_GATEWAY, &v4.sin_addr);
  inet_pton(AF_INET6, NET_GATEWAY6, &v6.sin6_addr);
  if (family == AF_INET) return bind(fd, (struct sockaddr *)&v4, sizeof v4) == 0;
  return bind(fd, (struct sockaddr *)&v6, sizeof v6) == 0;
}

static int listen_socket(int family, int type, int *out) {
  int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  int level = family == AF_INET ? SOL_IP : SOL_IPV6;
  /* Transparent: may be bound to an address that is not ours, and takes packets for any. The mark is inherited by
   * accepted connections. Reusing the port lets the next netd listen while the last one is still going away (same user
   * only, so a program inside cannot join). */
  bool ok = set(fd, level, family == AF_INET ? IP_TRANSPARENT : IPV6_TRANSPARENT, 1) &&
            set(fd, SOL_SOCKET, SO_MARK, (int)NET_MARK) && set(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
            (family == AF_INET || set(fd, SOL_IPV6, IPV6_V6ONLY, 1));
  /* Accepted connections have the far port for their own; a program inside may then still listen on that port. */
  if (ok && type == SOCK_STREAM) ok = set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  /* each datagram then says where it was meant to go */
  if (ok && type == SOCK_DGRAM) {
    ok = set(fd, level, family == AF_INET ? IP_RECVORIGDSTADDR : IPV6_RECVORIGDSTADDR, 1);
  }
  ok = ok && bind_to_gateway(fd, family) && (type == SOCK_DGRAM || listen(fd, BACKLOG) == 0);
  if (!ok) {
    int error = errno;
    close(fd);
    return error;
  }
  *out = fd;
  return 0;
}

/* IPPROTO_RAW: takes whole packets to send, header included, and receives none */
static int raw_socket(int family, int *out) {
  int fd = socket(family, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_RAW);
  if (fd < 0) return errno;
  if (!set(fd, SOL_SOCKET, SO_MARK, (int)NET_MARK)) {
    int error = errno;
    close(fd);
    return error;
  }
  *out = fd;
  return 0;
}

int net_listen(struct net_listeners *out) {
  for (int i = 0; i < NET_LISTENERS; i++) out->fd[i] = -1;
  int error = listen_socket(AF_INET, SOCK_STREAM, &out->fd[NET_TCP4]);
  if (!error) error = listen_socket(AF_INET, SOCK_DGRAM, &out->fd[NET_UDP4]);
  if (!error) error = raw_socket(AF_INET, &out->fd[NET_RAW4]);
  if (!error && (out->fd[NET_DIAG] = netlink_socket(NETLINK_SOCK_DIAG)) < 0) error = errno;
  /* Everything works without it, but refusals are not reported. */
  if (!error && tells && nflog_open(&out->fd[NET_REFUSED])) out->fd[NET_REFUSED] = -1;
  if (!error) {
    error = listen_socket(AF_INET6, SOCK_STREAM, &out->fd[NET_TCP6]);
    if (error == EAFNOSUPPORT) return 0;
  }
  if (!error) error = listen_socket(AF_INET6, SOCK_DGRAM, &out->fd[NET_UDP6]);
  if (!error) error = raw_socket(AF_INET6, &out->fd[NET_RAW6]);
  if (error) net_close(out);
  return error;
}

void net_close(struct net_listeners *listeners) {
  for (int i = 0; i < NET_LISTENERS; i++) {
    if (listeners->fd[i] >= 0) close(listeners->fd[i]);
    listeners->fd[i] = -1;
  }
}

int net_counters(uint64_t *received, uint64_t *sent) {
  int fd = netlink_socket(NETLINK_NETFILTER);
  if (fd < 0) return errno;
  int error = nft_read_counter(fd, TABLE, RECEIVED, received);
  if (!error) error = nft_read_counter(fd, TABLE, SENT, sent);
  close(fd);
  return error;
}
