/* copier.c: see copier.h. A copier ends when its socket does, so none outlives the launcher for longer than its copy. */
#define _GNU_SOURCE
#include "launcher/copier.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/machine.h"
#include "layers/volume.h"
#include "shared/title.h"

/* how many wait for work */
#define COPIERS_KEPT 4

struct copy_order {
  uint64_t bytes;
  char from[PATH_MAX], to[PATH_MAX];
};

struct copier {
  struct source source; /* must be the first member */
  struct copier *next;
  bool busy;
  /* who waits for its copy; NULL when nothing does any more */
  struct connection *asker;
  uint32_t id;
  struct copy_order order;
};

static struct copier *copiers;

static _Noreturn void serve(int fd) {
  static struct copy_order order;
  fd = connection_worker(fd);
  prctl(PR_SET_NAME, "sandkeep-copier", 0, 0, 0);
  title_set("sandkeep-copier");
  while (recv(fd, &order, sizeof order, 0) == (ssize_t)sizeof order) {
    int error = volume_snapshot(order.from, order.to);
    if (!error && order.bytes) error = volume_limit(order.to, order.bytes, 0);
    if (send(fd, &error, sizeof error, MSG_NOSIGNAL) < 0) break;
  }
  _exit(0);
}

/* closing its socket ends it; the launcher's loop reaps it */
static void dismiss(struct copier *c) {
  struct copier **at = &copiers;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  loop_remove(&c->source);
  close(c->source.fd);
  free(c);
}

static void answer(struct copier *c, int error) {
  if (c->asker && !error) connection_ok(c->asker, c->id);
  else if (c->asker) {
    connection_fail(c->asker, c->id, error, error == ESRCH ? WIRE_WHAT_SYSTEM : WIRE_WHAT_PATH,
                    "Cannot copy volume \"%s\": %s", c->order.from, error == ESRCH ? "its process died" : strerror(error));
  }
  c->asker = NULL;
  c->busy = false;
}

static void on_done(struct source *source, uint32_t events) {
  (void)events;
  struct copier *c = (struct copier *)source;
  int error;
  bool alive = recv(source->fd, &error, sizeof error, 0) == (ssize_t)sizeof error;
  answer(c, alive ? error : ESRCH);
  int idle = 0;
  for (struct copier *each = copiers; each; each = each->next) idle += !each->busy;
  if (!alive || idle > COPIERS_KEPT) dismiss(c);
}

static struct copier *new_copier(void) {
  int pair[2];
  struct copier *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
    free(c);
    return NULL;
  }
  pid_t pid = fork();
  if (pid == 0) serve(pair[1]);
  int error = pid < 0 ? errno : loop_add(&c->source, pair[0], EPOLLIN, on_done);
  close(pair[1]);
  if (error) {
    close(pair[0]);
    free(c);
    errno = error;
    return NULL;
  }
  c->next = copiers;
  copiers = c;
  return c;
}

static struct copier *free_copier(void) {
  for (struct copier *c = copiers; c; c = c->next) {
    if (!c->busy) return c;
  }
  return new_copier();
}

/* one that was killed while it waited is found out here, and another one takes its place */
static int begin(struct connection *asker, uint32_t id, const struct copy_order *order) {
  for (;;) {
    struct copier *c = free_copier();
    if (!c) return errno;
    ssize_t sent;
    do sent = send(c->source.fd, order, sizeof *order, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)sizeof *order) {
      c->busy = true;
      c->asker = asker;
      c->id = id;
      c->order = *order;
      return 0;
    }
    int error = errno;
    dismiss(c);
    if (error != EPIPE && error != ECONNRESET) return error;
  }
}

static bool copy_path(struct reader *r, char out[PATH_MAX]) {
  struct span path = read_str(r);
  if (path.length >= PATH_MAX) return false;
  if (path.length > 0) memcpy(out, path.data, path.length);
  return true;
}

void copier_ask(struct connection *from, uint32_t id, struct reader *r) {
  static struct copy_order order;
  memset(&order, 0, sizeof order);
  bool fits = copy_path(r, order.from) && copy_path(r, order.to);
  order.bytes = fits ? read_u64(r) : 0;
  if (!fits) {
    connection_fail(from, id, ENAMETOOLONG, WIRE_WHAT_PATH, "Cannot copy a volume: %s", strerror(ENAMETOOLONG));
  } else if (!reader_done(r)) {
    machine_malformed(from, id);
  } else {
    int error = begin(from, id, &order);
    if (error) connection_fail(from, id, error, WIRE_WHAT_SYSTEM, "Cannot copy volume \"%s\": %s", order.from, strerror(error));
  }
}

void copiers_forget(const struct connection *gone) {
  for (struct copier *c = copiers; c; c = c->next) {
    if (c->asker == gone) c->asker = NULL;
  }
}
