/*
 * machine_network.c: what the launcher does inside the network namespaces of its machines. Payloads:
 *
 *   NETWORK   str machine, u8 mode (0 deny-all, 1 allow-all, 2 by a policy of its own) -> OK
 *   COUNTERS  str machine -> OK { u64 received, u64 sent }
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/machine.h"
#include "netd/netd.h"

/* runs a function inside a network namespace and comes back */
static int inside(const struct machines *all, int network, int (*call)(void *), void *argument) {
  if (setns(network, CLONE_NEWNET) < 0) return errno;
  int error = call(argument);
  if (setns(all->host_network, CLONE_NEWNET) < 0) abort(); /* never go on in a sandbox's network */
  return error;
}

static int open_network(const struct machine *m) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/net", m->sandbox.pid);
  return open(path, O_RDONLY | O_CLOEXEC);
}

/*
 * Files of a network namespace in which the kernel shows numbers of the whole host: packets that each processor has
 * handled, sockets and memory of all TCP, routes that were looked up. A sandbox could watch its neighbours there. The
 * files are the namespace's own and the host's root owns them, so no program inside gets around their mode.
 */
static const char *const HOSTS_NUMBERS[] = {"softnet_stat", "sockstat", "protocols", "stat/rt_cache", "rt_acct"};

int machine_hide_numbers(const struct machine *m) {
  for (size_t i = 0; i < sizeof HOSTS_NUMBERS / sizeof *HOSTS_NUMBERS; i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/net/%s", m->sandbox.pid, HOSTS_NUMBERS[i]);
    if (chmod(path, 0) < 0 && errno != ENOENT) return errno;
  }
  return 0;
}

static int set_mode(void *argument) { return net_set_mode(*(enum net_mode *)argument); }

void machine_network(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct span name = read_str(r);
  enum net_mode mode = (enum net_mode)read_u8(r);
  if (!reader_done(r) || mode > NET_CUSTOM) {
    machine_malformed(from, id);
    return;
  }
  struct machine *m = machine_named(all, from, id, name);
  if (!m) return;
  /* Where a policy is to decide, the egress process must know before the first packet can come. A netd that is gone
   * is started again, and gets the mode with the sockets. */
  m->mode = mode;
  int error = netd_mode(all->netd, m->name, mode);
  if (error == EPIPE || error == ECONNRESET || error == EBADF) error = 0;
  int network = error ? -1 : open_network(m);
  if (!error) error = network < 0 ? errno : inside(all, network, set_mode, &mode);
  if (network >= 0) close(network);
  /* the rules stop what is inside; what is open outside ends too */
  if (!error && mode == NET_DENY_ALL) netd_cut(all->netd, m->name);
  if (error) connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot change the network: %s", strerror(error));
  else connection_ok(from, id);
}

static int read_counters(void *argument) {
  uint64_t *counters = argument;
  return net_counters(&counters[0], &counters[1]);
}

int machine_read_counters(const struct machine *m, uint64_t counters[2]) {
  int network = open_network(m);
  counters[0] = counters[1] = 0;
  int error = network < 0 ? errno : inside(m->all, network, read_counters, counters);
  if (network >= 0) close(network);
  return error;
}

void machine_counters(struct machines *all, struct connection *from, uint32_t id, struct reader *r) {
  struct machine *m = machine_asked_for(all, from, id, r);
  if (!m) return;
  uint64_t counters[2];
  int error = machine_read_counters(m, counters);
  if (error) {
    connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot read the network's counters: %s", strerror(error));
    return;
  }
  struct writer w = frame_begin(WIRE_OK, id);
  write_u64(&w, counters[0]);
  write_u64(&w, counters[1]);
  connection_send(from, &w);
}

static int listen_again(void *argument) {
  return net_listen(argument);
}

int machine_listen(struct machines *all, struct machine *m) {
  struct net_listeners listeners;
  int network = open_network(m);
  if (network < 0) return errno;
  int error = inside(all, network, listen_again, &listeners);
  close(network);
  if (error) return error;
  error = netd_add(all->netd, m->name, &listeners, m->mode);
  net_close(&listeners);
  return error;
}

void machines_listen_again(struct machines *all) {
  for (struct machine *m = all->first; m; m = m->next) machine_listen(all, m);
}

