/* dial.c: the relay of dial.h: two directions, each with one buffer, so that a slow side holds up only its own. */
#define _GNU_SOURCE
#include "agent/dial.h"

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

#include "network/net.h"
#include "shared/wire.h"

#define BUFFER (64u << 10)

struct direction {
  int from, to;
  uint8_t data[BUFFER];
  size_t start, end;
  bool ended;  /* `from` has no more */
  bool closed; /* and `to` has been told */
};

/* from here only what is counted goes out and comes in (net.h) */
static bool make_countable(int fd, bool v4) {
  int level = v4 ? IPPROTO_IP : IPPROTO_IPV6, service = NET_PORT_DSCP << 2, hops = NET_PORT_HOPS;
  return setsockopt(fd, level, v4 ? IP_TOS : IPV6_TCLASS, &service, sizeof service) == 0 &&
         setsockopt(fd, level, v4 ? IP_MINTTL : IPV6_MINHOPCOUNT, &hops, sizeof hops) == 0;
}

/* connects to a loopback address; -1 with errno set */
static int dial_address(const struct sockaddr *address, socklen_t length) {
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (make_countable(fd, address->sa_family == AF_INET) && connect(fd, address, length) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static int dial(uint16_t port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int fd = dial_address((struct sockaddr *)&v4, sizeof v4);
  if (fd >= 0) return fd;
  int error = errno;
  fd = dial_address((struct sockaddr *)&v6, sizeof v6);
  if (fd < 0) errno = error;
  return fd;
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
    if (!fds[i].events) fds[i].fd = -1; /* or a hang-up that cannot be handled would wake us for ever */
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
