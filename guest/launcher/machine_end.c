/*
 * machine_end.c: how machines end: killed when asked, or dead by themselves. Payload:
 *
 *   KILL        str machine -> OK once no process of it is left
 *   KILL_COUNT  str machine -> OK { u64 received, u64 sent } once no process of it is left: with what COUNTERS answers, or
 *               without it where the kernel does not tell
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/dismantler.h"
#include "launcher/machine.h"
#include "netd/netd.h"

void machine_unwatch(struct machine_source *s) {
  if (s->source.fd < 0) return;
  loop_remove(&s->source);
  s->source.fd = -1;
}

void machine_free(struct machine *m) {
  for (struct machine **at = &m->all->first; *at; at = &(*at)->next) {
    if (*at == m) {
      *at = m->next;
      break;
    }
  }
  machine_unwatch(&m->answer);
  machine_unwatch(&m->death);
  if (m->populated.source.fd >= 0) {
    int fd = m->populated.source.fd;
    machine_unwatch(&m->populated);
    close(fd);
  }
  if (m->sandbox.control >= 0) close(m->sandbox.control);
  if (m->sandbox.pidfd >= 0) close(m->sandbox.pidfd);
  if (m->unified_cgroup >= 0) close(m->unified_cgroup);
  free(m->socket_path);
  free(m);
}

static void answer_killer(struct machine *m) {
  if (m->killer) {
    struct writer w = frame_begin(WIRE_OK, m->killer_id);
    if (m->counts) {
      write_u64(&w, m->counters[0]);
      write_u64(&w, m->counters[1]);
    }
    connection_send(m->killer, &w);
  }
  m->killer = NULL;
  if (m->mounts >= 0) dismantle(m->mounts);
  m->mounts = -1;
}

static void emptied(struct machine *m) {
  m->empty = true;
  answer_killer(m);
}

/* the first process is gone, and with it every other one */
void machine_died(struct source *source, uint32_t events) {
  (void)events;
  struct machine *m = ((struct machine_source *)source)->machine;
  siginfo_t info;
  waitid((idtype_t)P_PIDFD, (id_t)m->sandbox.pidfd, &info, WEXITED | WNOHANG);
  raise(SIGCHLD); /* the loop that reaps children may have stopped before this one */
  if (m->activator) {
    struct failure failure;
    if (m->sandbox.control < 0 || sandbox_answer(&m->sandbox, &failure)) {
      failure = (struct failure){.error = ESRCH, .what = WIRE_WHAT_SYSTEM, .sentence = "Cannot start the sandbox: it died"};
    }
    connection_fail(m->activator, m->activator_id, failure.error, failure.what, "%s", failure.sentence);
  }
  emptied(m);
  netd_drop(m->all->netd, m->name);
  unlink(m->socket_path);
  machine_free(m);
}

static bool is_populated(int fd) {
  char text[128];
  ssize_t n = pread(fd, text, sizeof text - 1, 0);
  if (n <= 0) return true;
  text[n] = 0;
  return !strstr(text, "populated 0");
}

static void on_populated(struct source *source, uint32_t events) {
  (void)events;
  struct machine *m = ((struct machine_source *)source)->machine;
  if (!is_populated(source->fd)) emptied(m);
}

/* one write kills every process of the cgroup at once; a killed PID 1 would do so one after the other */
static void kill_cgroup(const struct machine *m) {
  int fd = m->unified_cgroup < 0 ? -1 : openat(m->unified_cgroup, "cgroup.kill", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "1", 1) < 0) syscall(SYS_pidfd_send_signal, m->sandbox.pidfd, SIGKILL, NULL, 0);
  close(fd);
}

/* tells us when the last process has gone, which may be long before the kernel has taken its mounts apart */
static void watch_population(struct machine *m) {
  int fd = m->unified_cgroup < 0 ? -1 : openat(m->unified_cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (loop_add(&m->populated.source, fd, EPOLLPRI, on_populated) != 0) {
    m->populated.source.fd = -1;
    close(fd);
  }
}

void machine_kill(struct machines *all, struct connection *from, uint32_t id, struct reader *r, bool counts) {
  struct machine *m = machine_asked_for(all, from, id, r);
  if (!m) return;
  answer_killer(m); /* an earlier caller gets its answer now */
  m->counts = counts && machine_read_counters(m, m->counters) == 0;
  m->killer = from;
  m->killer_id = id;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/mnt", m->sandbox.pid);
  m->mounts = open(path, O_RDONLY | O_CLOEXEC);
  if (m->populated.source.fd < 0) watch_population(m);
  kill_cgroup(m);
  syscall(SYS_pidfd_send_signal, m->sandbox.pidfd, SIGKILL, NULL, 0);
  if (m->populated.source.fd >= 0 && !is_populated(m->populated.source.fd)) emptied(m);
}
