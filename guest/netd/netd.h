/*
 * netd.h: the process that holds the listeners of all sandboxes and connects them to the outside.
 *
 * It decides nothing: connections and the first datagram of each flow go to its child, the egress process (egress.h),
 * which answers for the policy. netd never blocks, keeps bounds for each sandbox, and is confined (netd_process.h).
 *
 * It is forked by the launcher and ends with it: when the other end of `control` is closed. A launcher that starts anew
 * starts a new netd, enters each sandbox's network namespace, calls net_listen() and hands the sockets over; the old
 * ones may still be open then. The same holds when netd itself dies, which the launcher sees as its child's end.
 */
#ifndef SANDKEEP_NETD_H
#define SANDKEEP_NETD_H

#include <sys/types.h>

#include "network/net.h"

/* longest name of a machine: [A-Za-z0-9_-] */
#define NETD_NAME 64

struct netd_options {
  /* the egress process: path of Node, path of src/egress/main.ts, NULL; it inherits the environment and stderr */
  char *const *egress_argv;
};

/* forks it; *control is the launcher's end, close-on-exec. Returns 0 or an errno, as the functions below. */
int netd_start(const struct netd_options *options, pid_t *pid, int *control);

/* A machine's sockets from net_listen(), which the caller may close afterwards. A name that netd has already is replaced.
 * The caller need not wait: connections made meanwhile wait in the listener. */
int netd_add(int control, const char *machine, const struct net_listeners *listeners, enum net_mode mode);
/* the mode from now on, which each request to the egress process carries */
int netd_mode(int control, const char *machine, enum net_mode mode);
/* the machine has ended: closes its sockets and all its connections */
int netd_drop(int control, const char *machine);
/* closes its connections, also those that wait, but keeps the sockets; to be called after NET_DENY_ALL */
int netd_cut(int control, const char *machine);

/* Answers one request of netd, without waiting: netd asks agents who holds a socket, and has no path to them. `agent_of`
 * returns where the agent of a machine listens, or NULL. Returns 0, EAGAIN when there is no request, or another errno when
 * there will be none. */
int netd_answer(int control, const char *(*agent_of)(const char *machine));

/* the process itself, for who forks it by other means; does not return */
_Noreturn void netd_main(int control, char *const egress_argv[]);

#endif
