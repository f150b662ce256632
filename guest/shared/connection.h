/*
 * connection.h: a unix stream connection that carries frames (wire.h) without ever blocking.
 *
 * A new connection is read one frame at a time until its owner says otherwise, because the first frame may turn it
 * into something else (a file session, a byte stream) whose bytes belong to another process.
 */
#ifndef SANDKEEP_CONNECTION_H
#define SANDKEEP_CONNECTION_H

#include "shared/loop.h"
#include "shared/wire.h"

struct connection;

struct connection_handlers {
  /* called for each frame; the payload is valid until it returns */
  void (*frame)(struct connection *c, const struct header *header, const uint8_t *payload);
  /* called once when the connection has ended; it is freed afterwards */
  void (*closed)(struct connection *c);
  /* called when everything queued has been sent; may be NULL */
  void (*drained)(struct connection *c);
};

struct connection {
  struct source source; /* first, so that a source is its connection */
  const struct connection_handlers *handlers;
  struct connection *next;
  struct connection *previous;
  /* what has arrived of frames that are not complete */
  uint8_t *in;
  size_t in_length;
  size_t in_room;
  /* what is to be sent */
  uint8_t *out;
  size_t out_length;
  size_t out_room;
  /* reads past the first frame are allowed */
  bool streaming;
  bool dead;
  /* the owner's own marks */
  bool owes;
  void *owner;
};

/* takes over fd (nonblocking from now on); NULL when out of memory or there are too many, and fd is closed */
struct connection *connection_open(int fd, const struct connection_handlers *handlers, struct connection **list);
/* at once, where the usual thousand are too few */
void connections_allow(size_t most);

/* ends and frees dead connections; to be called outside of handlers, once a pass */
void connections_sweep(struct connection **list);
/* marks it as ended; its fd is closed at the next sweep */
void connection_end(struct connection *c);
/* gives the fd away, blocking again; the connection is freed at the next sweep without closing it */
int connection_release(struct connection *c);

/* queues a frame, ends and frees the writer; a connection whose queue passes its bound is ended */
void connection_send(struct connection *c, struct writer *w);
void connection_ok(struct connection *c, uint32_t id);
void connection_fail(struct connection *c, uint32_t id, int error, enum wire_what what, const char *sentence, ...)
    __attribute__((format(printf, 5, 6)));
/* answers HELLO */
void connection_hello(struct connection *c, uint32_t id, struct reader *r);
/*
 * In a process forked to serve one connection: makes it one that has nothing else of its parent's, and returns the
 * connection's descriptor.
 */
int connection_worker(int fd);
size_t connection_queued(const struct connection *c);

#endif
