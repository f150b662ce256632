/* connection.c: the nonblocking frame connection of connection.h. */
#define _GNU_SOURCE
#include "shared/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* more than this unsent means that the other side does not read: it is cut off, and may connect again */
#define OUT_BOUND (8u << 20)
#define READ_SIZE (64u << 10)
/* far more than one daemon has; a caller that forgets connections must not use up all descriptors */
static size_t most_connections = 1024;
static size_t open_connections;

static void on_ready(struct source *source, uint32_t events);

struct connection *connection_open(int fd, const struct connection_handlers *handlers, struct connection **list) {
  struct connection *c = open_connections < most_connections ? calloc(1, sizeof *c) : NULL;
  int flags = fcntl(fd, F_GETFL);
  if (!c || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || loop_add(&c->source, fd, EPOLLIN, on_ready) != 0) {
    free(c);
    close(fd);
    return NULL;
  }
  c->handlers = handlers;
  c->next = *list;
  if (*list) (*list)->previous = c;
  *list = c;
  open_connections++;
  return c;
}

void connection_end(struct connection *c) { c->dead = true; }

int connection_release(struct connection *c) {
  int fd = c->source.fd;
  loop_remove(&c->source);
  int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
  c->source.fd = -1;
  c->dead = true;
  return fd;
}

static void destroy(struct connection *c, struct connection **list) {
  if (c->handlers->closed) c->handlers->closed(c);
  if (c->source.fd >= 0) {
    loop_remove(&c->source);
    close(c->source.fd);
  }
  if (c->previous) c->previous->next = c->next;
  else *list = c->next;
  if (c->next) c->next->previous = c->previous;
  free(c->in);
  free(c->out);
  free(c);
  open_connections--;
}

void connections_allow(size_t most) { most_connections = most; }

void connections_sweep(struct connection **list) {
  for (struct connection *c = *list, *next; c; c = next) {
    next = c->next;
    if (c->dead) destroy(c, list);
  }
}

/* sends what the socket takes now */
static void flush(struct connection *c) {
  size_t sent = 0;
  while (sent < c->out_length) {
    ssize_t n = send(c->source.fd, c->out + sent, c->out_length - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      connection_end(c);
      return;
    }
    sent += (size_t)n;
  }
  memmove(c->out, c->out + sent, c->out_length - sent);
  c->out_length -= sent;
  if (c->out_length == 0 && c->out_room > READ_SIZE) {
    free(c->out);
    c->out = NULL;
    c->out_room = 0;
  }
  loop_change(&c->source, c->out_length ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void connection_send(struct connection *c, struct writer *w) {
  bool ok = frame_end(w) && !c->dead;
  bool waiting = c->out_length > 0; /* the loop says when the socket takes more */
  if (ok && c->out_length + w->length > OUT_BOUND) ok = false;
  if (ok && c->out_length + w->length > c->out_room) {
    size_t room = 2 * (c->out_length + w->length);
    uint8_t *bigger = realloc(c->out, room);
    if (bigger) {
      c->out = bigger;
      c->out_room = room;
    } else {
      ok = false;
    }
  }
  if (!ok) {
    connection_end(c);
  } else {
    memcpy(c->out + c->out_length, w->data, w->length);
    c->out_length += w->length;
    if (!waiting) flush(c);
  }
  writer_free(w);
}

void connection_ok(struct connection *c, uint32_t id) {
  struct writer w = frame_begin(WIRE_OK, id);
  connection_send(c, &w);
}

void connection_fail(struct connection *c, uint32_t id, int error, enum wire_what what, const char *sentence, ...) {
  va_list args;
  va_start(args, sentence);
  struct writer w = fail_frame(id, error, what, sentence, args);
  va_end(args);
  connection_send(c, &w);
}

size_t connection_queued(const struct connection *c) { return c->out_length; }

/* how many bytes may be read now: for a fresh connection, up to the end of the frame that has begun */
static size_t wanted(const struct connection *c) {
  if (c->streaming) return READ_SIZE;
  if (c->in_length < WIRE_HEADER) return WIRE_HEADER - c->in_length;
  struct header header;
  if (parse_header(c->in, &header) != 0) return 0;
  return WIRE_HEADER + header.length - c->in_length;
}

static bool make_room(struct connection *c, size_t more) {
  if (c->in_length + more <= c->in_room) return true;
  size_t room = c->in_length + more;
  uint8_t *bigger = realloc(c->in, room);
  if (!bigger) return false;
  c->in = bigger;
  c->in_room = room;
  return true;
}

/* hands over every frame that is complete */
static void parse(struct connection *c) {
  size_t at = 0;
  while (!c->dead && c->in_length - at >= WIRE_HEADER) {
    struct header header;
    if (parse_header(c->in + at, &header) != 0) {
      connection_end(c);
      return;
    }
    if (c->in_length - at < WIRE_HEADER + header.length) break;
    c->handlers->frame(c, &header, c->in + at + WIRE_HEADER);
    explicit_bzero(c->in + at + WIRE_HEADER, header.length);
    at += WIRE_HEADER + header.length;
  }
  memmove(c->in, c->in + at, c->in_length - at);
  c->in_length -= at;
  /* a large frame has passed: give its memory back */
  if (c->in_length == 0 && c->in_room > 2 * READ_SIZE) {
    free(c->in);
    c->in = NULL;
    c->in_room = 0;
  }
}

static void on_ready(struct source *source, uint32_t events) {
  struct connection *c = (struct connection *)source;
  if (c->dead) return;
  if (events & EPOLLOUT) {
    flush(c);
    if (!c->dead && c->out_length == 0 && c->handlers->drained) c->handlers->drained(c);
  }
  if (c->dead || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  size_t want = wanted(c);
  if (want == 0 || !make_room(c, want)) {
    connection_end(c);
    return;
  }
  ssize_t n = recv(source->fd, c->in + c->in_length, want, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    connection_end(c);
    return;
  }
  c->in_length += (size_t)n;
  parse(c);
}

void connection_hello(struct connection *c, uint32_t id, struct reader *r) {
  uint32_t version = read_u32(r);
  if (!reader_done(r) || version != WIRE_VERSION) {
    connection_fail(c, id, EPROTO, WIRE_WHAT_REQUEST, "Cannot talk: this process speaks version %d", WIRE_VERSION);
    return;
  }
  struct writer w = frame_begin(WIRE_OK, id);
  write_u32(&w, WIRE_VERSION);
  write_u32(&w, (uint32_t)getpid());
  connection_send(c, &w);
}

int connection_worker(int fd) {
  if (fd != 3 && dup2(fd, 3) < 0) _exit(1);
  close_range(4, ~0u, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  return 3;
}
