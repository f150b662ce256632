/* dial.c: the relay of dial.h: two directions, each with one buffer, so that a slow side holds up only its own. */
#define _GNU_SOURCE
#include "dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

#define BUFFER (64u << 10)

struct direction {
  int from, to;
  uint8_t data[BUFFER];
  size_t start, end;
  bool ended;  /* `from` has no more */
  bool closed; /* and `to` has been told */
};

static int dial(uint16_t port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&v4, sizeof v4) == 0) return fd;
  int error = errno;
  if (fd >= 0) close(fd);
  fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&v6, sizeof v6) == 0) return fd;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

static void nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

/* false when the direction is broken */
static bool fill(struct direction *d) {
  ssize_t n = recv(d->from, d->data + d->end, BUFFER - d->end, 0);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  d->end += (size_t)n;
  d->ended = n == 0;
  return true;
}

static bool empty_out(struct direction *d) {
  while (d->start < d->end) {
    ssize_t n = send(d->to, d->data + d->start, d->end - d->start, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    d->start += (size_t)n;
  }
  d->start = d->end = 0;
  if (d->ended && !d->closed) {
    shutdown(d->to, SHUT_WR);
    d->closed = true;
  }
  return true;
}

static bool step(struct direction *d) {
  if (!d->ended && d->end < BUFFER && !fill(d)) return false;
  return empty_out(d);
}

/* waits for what the directions can do next */
static bool wait_for(struct direction *up, struct direction *down) {
  struct pollfd fds[2] = {{.fd = up->from}, {.fd = down->from}};
  if (!up->ended && up->end < BUFFER) fds[0].events |= POLLIN;
  if (!down->ended && down->end < BUFFER) fds[1].events |= POLLIN;
  if (up->start < up->end) fds[1].events |= POLLOUT;
  if (down->start < down->end) fds[0].events |= POLLOUT;
  for (int i = 0; i < 2; i++) {
    if (!fds[i].events) fds[i].fd = -1; /* or a hang-up that nobody can act on would wake us for ever */
  }
  return poll(fds, 2, -1) >= 0 || errno == EINTR;
}

static void relay(int outer, int inner) {
  static struct direction up, down;
  up = (struct direction){.from = outer, .to = inner};
  down = (struct direction){.from = inner, .to = outer};
  nonblocking(outer);
  nonblocking(inner);
  while (!(up.closed && down.closed)) {
    if (!wait_for(&up, &down) || !step(&up) || !step(&down)) return;
  }
}

void serve_dial(int fd, uint32_t id, uint16_t port) {
  int inner = dial(port);
  if (inner < 0) {
    send_fail(fd, id, errno, WIRE_WHAT_REQUEST, "Cannot connect to port %u: %s", port,
              errno == ECONNREFUSED ? "nothing listens there" : strerror(errno));
    return;
  }
  int on = 1;
  setsockopt(inner, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (send_ok(fd, id) == 0) relay(fd, inner);
}
