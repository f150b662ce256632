/*
 * machine.h: the machines as the launcher knows them: a first process, its network, and who waits for what.
 *
 *            PREPARE              ACTIVATE               ready                    dead
 *   (none) ──────────▶ prepared ───────────▶ activating ───────▶ running ─────────────▶ (freed)
 *                          └──────────── killed, failed or died on the way ───────────────┘
 *
 *   prepared    namespaces, cgroups and network are there; its first process waits for a root
 *   activating  the root is mounted and handed over; the caller has no answer yet
 *   running     the agent serves; KILL ends it, and is answered when no process of it is left, from when on it is not
 *               listed either, though the kernel may not have taken all of it apart
 */
#ifndef SANDKEEP_MACHINE_H
#define SANDKEEP_MACHINE_H

#include "network/net.h"
#include "sandbox/sandbox.h"
#include "shared/connection.h"

struct machines;

struct machine_source {
  struct source source; /* must be the first member; fd is -1 when not watched */
  struct machine *machine;
};

struct machine {
  struct machine *next;
  struct machines *all;
  char name[65];
  enum { MACHINE_PREPARED, MACHINE_ACTIVATING, MACHINE_RUNNING } state;
  uid_t base;
  /* as it was last set */
  enum net_mode mode;
  struct sandbox sandbox;
  /* cgroup v2 directory for the kill switch, or -1 */
  int unified_cgroup;
  /* its mount namespace while it is being killed, or -1 */
  int mounts;
  char *socket_path;
  struct machine_source death, answer, populated;
  /* no process of it is left */
  bool empty;
  struct connection *activator;
  uint32_t activator_id;
  struct connection *killer;
  uint32_t killer_id;
  /* whether the killer gets the bytes that it has received and sent */
  bool counts;
  uint64_t counters[2];
};

struct machines {
  struct machine *first;
  const char *run; /* the launcher's folder */
  int host_network; /* the network namespace that the launcher lives in */
  int netd;         /* control connection, see netd.h */
};

/* requests; each answers on the connection, now or later */
void machine_prepare(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_activate(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_kill(struct machines *all, struct connection *from, uint32_t id, struct reader *r, bool counts);
void machine_network(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_counters(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_readopt(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_writes(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_list(struct machines *all, struct connection *from, uint32_t id);

/* the machine of that name; sends the failure itself when there is no such one */
struct machine *machine_named(struct machines *all, struct connection *from, uint32_t id, struct span name);
/* the same, of a request that holds a name and nothing else */
struct machine *machine_asked_for(struct machines *all, struct connection *from, uint32_t id, struct reader *r);
void machine_malformed(struct connection *from, uint32_t id);
void machine_unwatch(struct machine_source *s);
/* takes it off the list and closes what is open */
void machine_free(struct machine *m);
/* to be called when its first process is gone, and with it every other one */
void machine_died(struct source *source, uint32_t events);
/* opens the machine's listeners and hands them to netd */
int machine_listen(struct machines *all, struct machine *m);
/* hides what its network namespace tells of the host; once its agent has opened what it needs of that */
int machine_hide_numbers(const struct machine *m);
/* bytes that it has received and sent; 0 or an errno */
int machine_read_counters(const struct machine *m, uint64_t counters[2]);
void machines_forget(struct machines *all, const struct connection *c);
/* every machine's listeners again, after the network's process was started anew */
void machines_listen_again(struct machines *all);

#endif
