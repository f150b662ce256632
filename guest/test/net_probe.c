/*
 * net_probe.c: stands in for the launcher in the network's tests: makes network namespaces as the launcher does, starts
 * netd, and obeys one order a line on stdin, with one line on stdout for each.
 *
 *   net_probe <node> <main.ts>         prints "ready <pid of netd>"
 *   add <machine> [<agent's socket>]   "added <pid of a process in its network namespace>"
 *   allow|deny|custom|cut|drop <machine>   "done <microseconds>"
 *   counters <machine>                 "counters <received> <sent>"
 *   restart                            "restarted <pid of netd>": the old one is left, as by a launcher that died
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "netd/netd.h"
#include "network/net.h"

#define MOST 16

struct probed {
  char name[NETD_NAME + 1];
  int network;
  enum net_mode mode;
  char agent[108];
};

static struct probed machines[MOST];
static size_t count;
static int host_network;
static int control;
static pid_t netd;

static void check(const char *what, int error) {
  if (!error) return;
  fprintf(stderr, "Cannot %s: %s\n", what, strerror(error));
  exit(1);
}

static void enter(int network) { check("enter a network namespace", setns(network, CLONE_NEWNET) < 0 ? errno : 0); }

static void listen_for(const struct probed *machine) {
  struct net_listeners listeners;
  enter(machine->network);
  check("listen", net_listen(&listeners));
  enter(host_network);
  check("hand over", netd_add(control, machine->name, &listeners, machine->mode));
  net_close(&listeners);
}

/* a process that does nothing but keep the namespace reachable under its pid */
static pid_t hold(void) {
  pid_t parent = getpid(), pid = fork();
  check("fork", pid < 0 ? errno : 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The control socket above all: netd ends when the last copy of it is closed. */
    close_range(0, ~0u, 0);
    while (getppid() == parent) pause();
    _exit(0);
  }
  return pid;
}

static void add(const char *name, const char *agent) {
  if (count == MOST) exit(1);
  struct probed *machine = &machines[count++];
  snprintf(machine->name, sizeof machine->name, "%s", name);
  snprintf(machine->agent, sizeof machine->agent, "%s", agent);
  check("make a network namespace", unshare(CLONE_NEWNET) < 0 ? errno : 0);
  machine->network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  check("prepare", net_prepare());
  pid_t holder = hold();
  enter(host_network);
  listen_for(machine);
  printf("added %d\n", holder);
}

static struct probed *find(const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(machines[i].name, name) == 0) return &machines[i];
  }
  exit(1);
}

static int64_t microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void obey(const char *verb, const char *name) {
  struct probed *machine = find(name);
  uint64_t received = 0, sent = 0;
  int64_t start = microseconds();
  if (strcmp(verb, "cut") == 0) check(verb, netd_cut(control, name));
  if (strcmp(verb, "drop") == 0) check(verb, netd_drop(control, name));
  static const char *const modes[] = {[NET_DENY_ALL] = "deny", [NET_ALLOW_ALL] = "allow", [NET_CUSTOM] = "custom"};
  for (enum net_mode mode = NET_DENY_ALL; mode <= NET_CUSTOM; mode++) {
    if (strcmp(verb, modes[mode]) != 0) continue;
    machine->mode = mode;
    check(verb, netd_mode(control, name, mode));
    enter(machine->network);
    check(verb, net_set_mode(mode));
  }
  enter(machine->network);
  if (strcmp(verb, "counters") == 0) check(verb, net_counters(&received, &sent));
  enter(host_network);
  if (strcmp(verb, "counters") == 0) {
    printf("counters %" PRIu64 " %" PRIu64 "\n", received, sent);
  } else {
    printf("done %" PRId64 "\n", microseconds() - start);
  }
}

static const char *agent_of(const char *name) {
  const char *path = find(name)->agent;
  return *path ? path : NULL;
}

/* serves netd until there is an order to read */
static void wait_for_order(void) {
  struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = control, .events = POLLIN}};
  do {
    if (poll(polled, 2, -1) < 0) exit(1);
    int error = polled[1].revents ? netd_answer(control, agent_of) : 0;
    if (error && error != EAGAIN) polled[1].fd = -1;
  } while (!polled[0].revents);
}

static bool next_order(char *line, int room) {
  wait_for_order();
  return fgets(line, room, stdin) != NULL;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  signal(SIGCHLD, SIG_IGN);
  setvbuf(stdout, NULL, _IOLBF, 0);
  /* what is read ahead could not be waited for */
  setvbuf(stdin, NULL, _IONBF, 0);
  struct netd_options options = {.egress_argv = argv + 1};
  host_network = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  check("start netd", netd_start(&options, &netd, &control));
  printf("ready %d\n", netd);
  char line[256], verb[32], name[NETD_NAME + 1], agent[sizeof machines->agent];
  while (next_order(line, sizeof line)) {
    agent[0] = 0;
    int words = sscanf(line, "%31s %64s %107s", verb, name, agent);
    if (words == 1 && strcmp(verb, "restart") == 0) {
      int old = control;
      check("start netd", netd_start(&options, &netd, &control));
      for (size_t i = 0; i < count; i++) listen_for(&machines[i]);
      close(old);
      printf("restarted %d\n", netd);
    } else if (words >= 2 && strcmp(verb, "add") == 0) {
      add(name, agent);
    } else if (words == 2) {
      obey(verb, name);
    }
  }
  return 0;
}
