/* netd_client.c: the launcher's side of netd.h: starts netd, sends it its orders, and connects it to agents. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "netd/netd.h"
#include "netd/netd_order.h"
#include "shared/wire.h"

/* how long the launcher waits for a netd that does not read, in s */
#define PATIENCE 5

static int send_order(int fd, enum netd_order_kind kind, const char *machine, const struct net_listeners *sockets,
                      enum net_mode mode) {
  if (!netd_is_name(machine)) return EINVAL;
  struct netd_order order = {.kind = kind, .mode = mode};
  memcpy(order.machine, machine, strlen(machine) + 1);
  return netd_order_send(fd, order, sockets);
}

int netd_add(int fd, const char *machine, const struct net_listeners *listeners, enum net_mode mode) {
  return send_order(fd, NETD_ADD, machine, listeners, mode);
}

int netd_mode(int fd, const char *machine, enum net_mode mode) {
  return send_order(fd, NETD_MODE, machine, NULL, mode);
}

int netd_drop(int fd, const char *machine) { return send_order(fd, NETD_DROP, machine, NULL, NET_DENY_ALL); }

int netd_cut(int fd, const char *machine) { return send_order(fd, NETD_CUT, machine, NULL, NET_DENY_ALL); }

/* a connection to an agent that serves HOLDERS on it, or -1; a unix socket connects at once or not at all */
static int dial(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= (int)sizeof address.sun_path) return -1;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  struct writer w = frame_begin(WIRE_HOLDERS, 0);
  bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  if (connected && send_frame(fd, &w) == 0) return fd;
  if (!connected) writer_free(&w);
  close(fd);
  return -1;
}

int netd_answer(int fd, const char *(*agent_of)(const char *machine)) {
  struct netd_order order;
  struct net_listeners sockets;
  int error = netd_order_receive(fd, &order, &sockets);
  if (error == EBADMSG) return 0;
  if (error) return error;
  net_close(&sockets);
  if (order.kind != NETD_AGENT) return 0;
  const char *path = agent_of(order.machine);
  sockets.fd[0] = path ? dial(path) : -1;
  error = send_order(fd, NETD_AGENT, order.machine, &sockets, NET_DENY_ALL);
  net_close(&sockets);
  return error;
}

int netd_start(const struct netd_options *options, pid_t *pid, int *fd) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) return errno;
  /* netd always reads; should it be stopped in a debugger, the launcher still has to go on */
  struct timeval patience = {.tv_sec = PATIENCE};
  setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  *pid = fork();
  if (*pid == 0) netd_main(pair[1], options->egress_argv);
  int error = *pid < 0 ? errno : 0;
  close(pair[1]);
  if (error) {
    close(pair[0]);
    return error;
  }
  *fd = pair[0];
  return 0;
}
