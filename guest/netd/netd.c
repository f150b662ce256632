/* netd.c: the process of netd.h: accepts connections, takes datagrams, keeps the bounds, and obeys the launcher. */
#define _GNU_SOURCE
#include "netd/netd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/egress.h"
#include "egress/keeper.h"
#include "netd/flows.h"
#include "netd/holder_client.h"
#include "netd/netd_order.h"
#include "netd/netd_process.h"
#include "netd/refusals.h"
#include "network/diag.h"
#include "shared/connection.h"
#include "shared/ids.h"
#include "shared/loop.h"

/* Connections that Node holds for one machine, and for all; beyond all, each machine still has its reserve. Each may hold
 * 64 KiB of Node's memory a direction when it is not read. */
#define CONNECTIONS_PER_MACHINE 512
#define CONNECTIONS_TOTAL 8192
#define CONNECTIONS_RESERVED 16
/* Connections of one machine on their way to Node, which hears of one in each turn of its loop: those of others are
 * behind them. */
#define UNTAKEN_PER_MACHINE 4
/* Sandboxes whose agents are asked at once: more than a host has. */
#define MOST_AGENTS 4096

struct tenant;

struct listener {
  struct source source; /* first: a ready source is its listener */
  struct tenant *tenant;
};

/* A machine as netd knows it. */
struct tenant {
  uint64_t id;
  char name[NETD_NAME + 1];
  struct net_listeners sockets;
  struct listener listeners[NET_LISTENERS];
  struct flows flows;
  struct refusals refusals;
  struct holders holders;
  /* that Node holds */
  unsigned connections;
  /* of these, that Node has not begun with */
  unsigned untaken;
  /* its connections are left to wait: Node has no room, has enough of them, or descriptors ran out */
  bool paused;
  struct tenant *next;
  struct tenant *previous;
};

/* A machine whose end has not been sent to Node yet, for lack of room. */
struct ending {
  uint64_t id;
  struct ending *next;
};

static struct ids numbers;
static struct tenant *tenants;
static unsigned connections;
static unsigned paused_tenants;
static struct ending *endings;
static struct source control;

/* ---- connections ---- */

static bool may_connect(const struct tenant *tenant) {
  if (tenant->untaken >= UNTAKEN_PER_MACHINE) return false;
  if (tenant->connections < CONNECTIONS_RESERVED) return true;
  return tenant->connections < CONNECTIONS_PER_MACHINE && connections < CONNECTIONS_TOTAL;
}

static void set_paused(struct tenant *tenant, bool paused) {
  if (tenant->paused == paused) return;
  tenant->paused = paused;
  paused_tenants += paused ? 1u : -1u;
  const enum net_listener tcp[] = {NET_TCP4, NET_TCP6};
  for (size_t i = 0; i < 2; i++) {
    if (tenant->sockets.fd[tcp[i]] >= 0) loop_change(&tenant->listeners[tcp[i]].source, paused ? 0 : EPOLLIN);
  }
}

static void close_with_reset(int fd) {
  struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(fd);
}

/* gives the connection to Node, which sees an ordinary socket */
static bool hand_over(struct tenant *tenant, int fd) {
  struct sockaddr_storage local = {0}, peer = {0};
  socklen_t size = sizeof local, peer_size = sizeof peer;
  struct endpoint inside, outside;
  char address[INET6_ADDRSTRLEN];
  /* The local address of a connection that came through the ruleset is the one the program meant. */
  if (getsockname(fd, (struct sockaddr *)&local, &size) < 0 || !endpoint_of(&local, &outside)) return false;
  endpoint_text(&outside, address);
  bool known = getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && endpoint_of(&peer, &inside);
  uint32_t inode = known ? diag_inode(tenant->sockets.fd[NET_DIAG], IPPROTO_TCP, &inside, &outside) : 0;
  uint32_t holder = holders_ask(&tenant->holders, inode);
  return egress_say(fd,
                    "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Socket\",\"msg\":{\"kind\":\"tcp\",\"id\":%" PRIu64
                    ",\"machine\":\"%s\",\"custom\":%s,\"address\":\"%s\",\"port\":%u,\"holder\":%" PRIu32 "}}",
                    tenant->id, tenant->name, tenant->flows.custom ? "true" : "false", address, outside.port, holder);
}

static void tcp_ready(struct source *source, uint32_t what) {
  (void)what;
  struct tenant *tenant = ((struct listener *)source)->tenant;
  for (int i = 0; i < LOOP_TURN; i++) {
    if (!may_connect(tenant) || !egress_has_room()) {
      set_paused(tenant, true);
      return;
    }
    int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      /* Out of descriptors or memory, the listener would stay ready: it gets another try after a while. */
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) set_paused(tenant, true);
      return;
    }
    if (hand_over(tenant, fd)) {
      tenant->untaken++;
      tenant->connections++;
      connections++;
      close(fd);
    } else {
      close_with_reset(fd);
    }
  }
}

/* "taken <id> <count>" or "closed <id> <count>" */
static int connections_said(const char *line) {
  char word[8];
  uint64_t id;
  unsigned count;
  if (sscanf(line, "%7s %" SCNu64 " %u", word, &id, &count) != 3) return EINVAL;
  struct tenant *tenant = ids_get(&numbers, id);
  if (!tenant) return 0;
  bool closed = strcmp(word, "closed") == 0;
  unsigned *counted = closed ? &tenant->connections : &tenant->untaken;
  if (count > *counted) count = *counted;
  *counted -= count;
  if (closed) connections -= count;
  if (may_connect(tenant)) set_paused(tenant, false);
  return 0;
}

/* ---- datagrams ---- */

static bool destination_of(struct msghdr *message, struct endpoint *out) {
  struct sockaddr_storage address = {0};
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    bool v4 = head->cmsg_level == SOL_IP && head->cmsg_type == IP_ORIGDSTADDR;
    bool v6 = head->cmsg_level == SOL_IPV6 && head->cmsg_type == IPV6_ORIGDSTADDR;
    size_t size = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if ((!v4 && !v6) || head->cmsg_len < CMSG_LEN(size)) continue;
    memcpy(&address, CMSG_DATA(head), size);
    return endpoint_of(&address, out);
  }
  return false;
}

/* one datagram and where it comes from and goes to; its length, or -1 when none is there */
static ssize_t receive(int fd, uint8_t *buffer, size_t room, struct endpoint *inside, struct endpoint *outside) {
  for (;;) {
    struct sockaddr_storage from = {0};
    struct iovec part = {.iov_base = buffer, .iov_len = room};
    _Alignas(struct cmsghdr) char space[256];
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = space, .msg_controllen = sizeof space};
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    if (got < 0) return -1;
    if (endpoint_of(&from, inside) && destination_of(&message, outside)) return got;
  }
}

static void udp_ready(struct source *source, uint32_t what) {
  (void)what;
  static uint8_t buffer[65536];
  struct tenant *tenant = ((struct listener *)source)->tenant;
  struct endpoint inside, outside;
  for (int i = 0; i < LOOP_TURN; i++) {
    ssize_t length = receive(source->fd, buffer, sizeof buffer, &inside, &outside);
    if (length < 0) return;
    flows_datagram(&tenant->flows, &inside, &outside, buffer, (size_t)length);
  }
}

/* ---- tenants ---- */

static struct tenant *tenant_named(const char *name) {
  struct tenant *tenant = tenants;
  while (tenant && strcmp(tenant->name, name) != 0) tenant = tenant->next;
  return tenant;
}

/* tells Node of the endings it has room for */
static void tell_endings(void) {
  while (endings && egress_say(-1, "{\"kind\":\"end\",\"id\":%" PRIu64 "}", endings->id)) {
    struct ending *sent = endings;
    endings = sent->next;
    free(sent);
  }
}

static void forget_endings(void) {
  while (endings) {
    struct ending *first = endings;
    endings = first->next;
    free(first);
  }
}

static void end_connections(struct tenant *tenant) {
  flows_end(&tenant->flows);
  struct ending *ending = malloc(sizeof *ending);
  if (!ending) return;
  *ending = (struct ending){.id = tenant->id, .next = endings};
  endings = ending;
  tell_endings();
}

static void drop(struct tenant *tenant) {
  set_paused(tenant, false);
  for (int i = 0; i < NET_LISTENERS; i++) {
    if (tenant->listeners[i].source.fd >= 0) loop_remove(&tenant->listeners[i].source);
  }
  refusals_end(&tenant->refusals);
  net_close(&tenant->sockets);
  holders_close(&tenant->holders);
  end_connections(tenant);
  connections -= tenant->connections;
  *(tenant->previous ? &tenant->previous->next : &tenants) = tenant->next;
  if (tenant->next) tenant->next->previous = tenant->previous;
  ids_remove(&numbers, tenant->id);
  free(tenant);
}

/* What was sent before the sandbox was cut off must not leave after it: whatever waits is thrown away. */
static void cut(struct tenant *tenant) {
  int fd;
  for (int i = 0; i < NET_LISTENERS; i++) {
    int socket = tenant->sockets.fd[i];
    if (socket < 0) continue;
    if (i == NET_TCP4 || i == NET_TCP6) {
      while ((fd = accept4(socket, NULL, NULL, SOCK_CLOEXEC)) >= 0) close_with_reset(fd);
    } else if (i == NET_UDP4 || i == NET_UDP6) {
      while (recv(socket, NULL, 0, MSG_DONTWAIT | MSG_TRUNC) >= 0) continue;
    }
  }
  end_connections(tenant);
}

static int watch(struct tenant *tenant) {
  for (int i = 0; i < NET_LISTENERS; i++) {
    bool tcp = i == NET_TCP4 || i == NET_TCP6, udp = i == NET_UDP4 || i == NET_UDP6;
    if (tenant->sockets.fd[i] < 0 || (!tcp && !udp)) continue;
    struct listener *listener = &tenant->listeners[i];
    int error = loop_add(&listener->source, tenant->sockets.fd[i], EPOLLIN, tcp ? tcp_ready : udp_ready);
    if (error) return error;
  }
  return refusals_open(&tenant->refusals, tenant->id, tenant->name, tenant->sockets.fd[NET_REFUSED]);
}

/* The launcher is not waited for: it may be waiting for netd. */
static int call_agent(const char *machine) {
  struct netd_order order = {.kind = NETD_AGENT};
  snprintf(order.machine, sizeof order.machine, "%s", machine);
  return netd_order_send(control.fd, order, NULL);
}

/* takes the sockets over, whether it succeeds or not */
static int add(const struct netd_order *order, const struct net_listeners *sockets) {
  struct tenant *known = tenant_named(order->machine);
  if (known) drop(known);
  struct tenant *tenant = calloc(1, sizeof *tenant);
  if (!tenant) {
    struct net_listeners unused = *sockets;
    net_close(&unused);
    return ENOMEM;
  }
  tenant->sockets = *sockets;
  memcpy(tenant->name, order->machine, sizeof tenant->name);
  holders_open(&tenant->holders, tenant->name, call_agent);
  for (int i = 0; i < NET_LISTENERS; i++) {
    tenant->listeners[i].tenant = tenant;
    tenant->listeners[i].source.fd = -1;
  }
  tenant->refusals.source.fd = -1;
  tenant->next = tenants;
  if (tenants) tenants->previous = tenant;
  tenants = tenant;
  tenant->id = ids_add(&numbers, tenant);
  flows_open(&tenant->flows, tenant->id, tenant->name, sockets, &tenant->holders);
  tenant->flows.custom = order->mode == NET_CUSTOM;
  int error = tenant->id ? watch(tenant) : EMFILE;
  if (error) drop(tenant);
  return error;
}

/* ---- Node ---- */

/* "<word> <machine> <token>": the token goes back when it is done, and the machine may be gone */
static bool parse_order(const char *line, struct tenant **tenant, uint64_t *token) {
  char name[NETD_NAME + 1];
  if (sscanf(line, "%*s %64s %" SCNu64, name, token) != 2) return false;
  *tenant = tenant_named(name);
  return true;
}

static int say_done(const char *kind, uint64_t token) {
  return egress_say(-1, "{\"kind\":\"%s\",\"id\":%" PRIu64 "}", kind, token) ? 0 : EAGAIN;
}

/* what it may reach has changed, or what all may, so what is allowed so far is asked for again */
static int recheck(const char *line) {
  struct tenant *tenant;
  uint64_t token;
  if (!parse_order(line, &tenant, &token)) return EINVAL;
  bool all = strncmp(line, "recheck * ", 10) == 0;
  for (struct tenant *each = tenants; all && each; each = each->next) flows_recheck(&each->flows);
  if (tenant) flows_recheck(&tenant->flows);
  return say_done("rechecked", token);
}

/* reports the packets that were refused until now, because its log is being read */
static int tell(const char *line) {
  struct tenant *tenant;
  uint64_t token;
  if (!parse_order(line, &tenant, &token)) return EINVAL;
  if (tenant) refusals_tell(&tenant->refusals);
  return say_done("told", token);
}

static void node_said(const char *line) {
  bool connected = strncmp(line, "closed ", 7) == 0 || strncmp(line, "taken ", 6) == 0;
  int error = connected                           ? connections_said(line)
              : strncmp(line, "recheck ", 8) == 0 ? recheck(line)
              : strncmp(line, "tell ", 5) == 0    ? tell(line)
                                                  : flows_answered(line);
  if (error) fprintf(stderr, "Ignored what the egress process said: \"%.80s\"\n", line);
}

static void node_gone(void) {
  connections = 0;
  forget_endings();
  for (struct tenant *tenant = tenants; tenant; tenant = tenant->next) {
    tenant->connections = 0;
    tenant->untaken = 0;
    flows_unanswered(&tenant->flows);
  }
}

static void resume_paused(void) {
  if (!paused_tenants || !egress_has_room()) return;
  for (struct tenant *tenant = tenants; tenant; tenant = tenant->next) {
    if (may_connect(tenant)) set_paused(tenant, false);
  }
}

static void node_has_room(void) {
  tell_endings();
  resume_paused();
}

static const struct egress_events node = {.said = node_said, .gone = node_gone, .room = node_has_room};

/* ---- the launcher ---- */

static void control_ready(struct source *source, uint32_t what) {
  (void)what;
  struct netd_order order;
  struct net_listeners sockets;
  int unread = netd_order_receive(source->fd, &order, &sockets);
  if (unread == EAGAIN || unread == EINTR || unread == EBADMSG) return;
  /* The launcher is gone: the next launcher starts its own netd. */
  if (unread) _exit(0);
  struct tenant *tenant = tenant_named(order.machine);
  if (order.kind == NETD_ADD) {
    int error = add(&order, &sockets);
    if (error) fprintf(stderr, "Cannot serve machine \"%s\": %s\n", order.machine, strerror(error));
    return;
  }
  if (order.kind == NETD_AGENT && tenant) {
    holders_connect(&tenant->holders, sockets.fd[0]);
    sockets.fd[0] = -1;
  }
  net_close(&sockets);
  if (order.kind == NETD_DROP && tenant) drop(tenant);
  if (order.kind == NETD_CUT && tenant) cut(tenant);
  if (order.kind == NETD_MODE && tenant) tenant->flows.custom = order.mode == NET_CUSTOM;
}

/* ---- what netd.h offers ---- */

_Noreturn void netd_main(int fd, char *const egress_argv[]) {
  loop_close();
  netd_begin(fd);
  /* The egress process is confined by one that has the privileges for it, which netd gives up. */
  int keeper, error = keeper_start(egress_argv, &keeper);
  if (error) {
    fprintf(stderr, "Cannot start the keeper of the egress process: %s\n", strerror(error));
    _exit(1);
  }
  diag_try();
  connections_allow(MOST_AGENTS);
  if (fcntl(NETD_CONTROL, F_SETFL, O_NONBLOCK) < 0 || loop_open() || loop_add(&control, NETD_CONTROL, EPOLLIN, control_ready)) _exit(1);
  error = netd_confine();
  if (error) {
    fprintf(stderr, "Cannot confine the network process: %s\n", strerror(error));
    _exit(1);
  }
  if (egress_open(keeper, &node)) _exit(1);
  for (int64_t swept = loop_now();;) {
    int timeout = egress_tick();
    bool busy = flows_total() || paused_tenants || refusals_waiting() || holders_connected();
    if (busy && (timeout < 0 || timeout > 1000)) timeout = 1000;
    if (loop_pass(timeout)) _exit(1);
    holders_sweep();
    if (loop_now() - swept < 1000) continue;
    swept = loop_now();
    resume_paused();
    refusals_refill_all();
    for (struct tenant *tenant = tenants; tenant; tenant = tenant->next) {
      flows_expire(&tenant->flows, swept);
      refusals_refill(&tenant->refusals);
      holders_expire(&tenant->holders, swept);
    }
  }
}
