/* netd_client.c: the launcher's side of netd.h: starts netd and sends it its orders. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "netd.h"
#include "netd_order.h"

/* how long the launcher waits for a netd that does not read, in s */
#define PATIENCE 5

static int send_order(int fd, enum netd_order_kind kind, const char *machine, const struct net_listeners *sockets,
                      enum net_mode mode, const char *agent) {
  if (!netd_is_name(machine)) return EINVAL;
  struct netd_order order = {.kind = kind, .mode = mode};
  memcpy(order.machine, machine, strlen(machine) + 1);
  if (agent && snprintf(order.agent, sizeof order.agent, "%s", agent) >= (int)sizeof order.agent) return ENAMETOOLONG;
  return netd_order_send(fd, order, sockets);
}

int netd_add(int fd, const char *machine, const struct net_listeners *listeners, enum net_mode mode, const char *agent) {
  return send_order(fd, NETD_ADD, machine, listeners, mode, agent);
}

int netd_mode(int fd, const char *machine, enum net_mode mode) {
  return send_order(fd, NETD_MODE, machine, NULL, mode, NULL);
}

int netd_drop(int fd, const char *machine) { return send_order(fd, NETD_DROP, machine, NULL, NET_DENY_ALL, NULL); }

int netd_cut(int fd, const char *machine) { return send_order(fd, NETD_CUT, machine, NULL, NET_DENY_ALL, NULL); }

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
